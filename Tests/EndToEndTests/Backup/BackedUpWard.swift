import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import Testing

/// A topology under load that tests back up, and a copy of it that they restore in another
/// directory.
struct BackedUpWard {
  let topology: DetachedTopology

  /// The senders and receivers alternate in the alphabet, and so in the order in which a backup
  /// reads their journals: `ant` sends to `bee`, and `dog` sends to `cat`.
  static let yaml = """
    topology: ward
    program: TestNodes
    nodes:
      ant: { machine: Source, restart: { max: 1000, backoff: { initial: 10ms } } }
      bee: { machine: Sink, restart: { max: 1000, backoff: { initial: 10ms } } }
      cat: { machine: Sink, restart: { max: 1000, backoff: { initial: 10ms } } }
      dog: { machine: Source, restart: { max: 1000, backoff: { initial: 10ms } } }
      fly: { machine: Button, durability: none }
    pipes:
      - { from: ant.out, to: bee.in }
      - { from: dog.out, to: cat.in }
    """
  static let sources = ["ant": "bee", "dog": "cat"]

  /// Starts the topology, and lets both sources send.
  static func with(
    failpoints: String? = nil, _ body: (BackedUpWard) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = Set(sources.keys).union(sources.values)
      tool.environment["PIPERUNTIME_FAILPOINTS"] = failpoints
      let ward = BackedUpWard(
        topology: try DetachedTopology(tool: tool, name: "ward", yaml: yaml))
      try await ward.topology.up()
      try await ward.send()
      try await body(ward)
      try await ward.topology.run("down", "--force")
    }
  }

  /// A reference to the topology, for programs without failpoints.
  var withoutFailpoints: BackedUpWard {
    get throws {
      var tool = topology.tool
      tool.environment["PIPERUNTIME_FAILPOINTS"] = nil
      return BackedUpWard(topology: try DetachedTopology(tool: tool, name: "ward", yaml: Self.yaml))
    }
  }

  /// The path of a file in the directory of the test.
  func path(_ name: String) -> String { topology.tool.directory.path + "/" + name }

  /// Lets both sources send numbers until they are halted.
  func send() async throws {
    for source in Self.sources.keys.sorted() {
      try await topology.run("send", source, #"{"go":{"count":1000000000}}"#)
    }
  }

  /// Waits until both sinks have received more numbers.
  func awaitProgress(at location: SourceLocation = #_sourceLocation) async throws {
    let client = try topology.client()
    defer { client.close() }
    let before = try await Self.counts(client)
    let hasProgress: Bool? = try await poll(within: .seconds(60)) {
      let counts = try await Self.counts(client)
      return counts.allSatisfy { $0.value > before[$0.key] ?? 0 } && counts.count == 2 ? true : nil
    }
    #expect(hasProgress == true, sourceLocation: location)
  }

  private static func counts(_ client: TopologyClient) async throws -> [String: Int64] {
    let directory = try await client.directory(fresh: true)
    var counts: [String: Int64] = [:]
    for sink in sources.values {
      guard case .integer(let count)? = directory[node: sink]?.status?.state?["counting"]?["count"]
      else { continue }
      counts[sink] = count
    }
    return counts
  }

  private func halt(_ source: String) async throws {
    let isHalted: Bool? = try await poll(within: .seconds(60)) {
      // A source with a full pipe refuses the event.
      let halt = try topology.tool.start(CommandLineTool.withLongTimeout(["send", source, "halt"]))
      return try await topology.tool.result(of: halt, within: .seconds(60)).code == 0 ? true : nil
    }
    try #require(isHalted == true, "the source does not halt")
  }

  /// Halts both sources, and expects that each sink has received all numbers once and in order.
  func expectEveryNumberOnce(at location: SourceLocation = #_sourceLocation) async throws {
    for source in Self.sources.keys.sorted() { try await halt(source) }
    let client = try topology.client()
    defer { client.close() }
    for (source, sink) in Self.sources {
      var last: TopologyDirectory?
      let isComplete: Bool? = try await poll(within: .seconds(60)) {
        let directory = try await client.directory(fresh: true)
        last = directory
        guard let sent = directory[node: source]?.status?.state?["idle"]?["sent"] else {
          return nil
        }
        let complete: JSONValue = ["counting": ["last": sent, "count": sent, "wrong": 0]]
        return directory[node: sink]?.status?.state == complete ? true : nil
      }
      let logs = try topology.logs()
      #expect(
        isComplete == true, "\(source): \(String(describing: last))\n\(logs)",
        sourceLocation: location)
    }
  }

  /// Restores a backup in another directory, starts it, and lets it run.
  func restored(
    _ file: String, _ body: (BackedUpWard) async throws -> Void
  ) async throws {
    var tool = try CommandLineTool()
    tool.crashingNodes = topology.tool.crashingNodes
    defer { tool.remove() }
    try await tool.run("restore", file, within: .seconds(60), code: 0)
    let copy = BackedUpWard(
      topology: try DetachedTopology(tool: tool, name: "ward", yaml: Self.yaml))
    try await copy.topology.up()
    try await body(copy)
    try await copy.topology.run("down")
  }
}
