import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

/// A topology whose programs are scripts that run one version of the machines `Parcel` and
/// `Shipper`. A rewritten script is a program that was built again.
struct Parcels {
  let topology: DetachedTopology

  /// - Parameters:
  ///   - parcel: The keys of the node `parcel`.
  ///   - pipe: The keys of the pipe.
  static func yaml(parcel: String = "", pipe: String = "", timeouts: String = "") -> String {
    """
    topology: ward
    \(timeouts)
    nodes:
      shipper: { machine: Shipper, program: ./sender, restart: { backoff: { initial: 10ms } } }
      parcel:
        machine: Parcel
        program: ./receiver
        restart: { backoff: { initial: 10ms } }
        \(parcel)
    pipes:
      - { name: parcels, from: shipper.out, to: parcel.in\(pipe) }
    """
  }

  /// Starts the topology with the first version of both programs.
  static func with(
    _ yaml: String = yaml(), crashing: Set<String> = ["parcel"],
    _ body: (Parcels) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = crashing
      let parcels = Parcels(
        topology: try DetachedTopology(tool: tool, name: "ward", yaml: yaml))
      try await parcels.build("1", "sender", "receiver")
      try await parcels.topology.up()
      try await body(parcels)
      try await parcels.topology.run("down")
    }
  }

  /// Replaces programs by another version.
  func build(_ version: String, _ programs: String...) async throws {
    for program in programs {
      try topology.tool.directory.write(
        """
        #!/bin/sh
        PARCEL=\(version) exec "\(CommandLineTool.products)/TestNodes" "$@"

        """, to: program, mode: 0o700)
    }
  }

  /// Sends an event to the node `parcel`.
  func send(_ event: String, code: Int32 = 0) async throws {
    try await topology.run("send", "parcel", event, code: code)
  }

  /// Lets the shipper send an event.
  func ship(_ count: Int = 1) async throws {
    for _ in 0..<count { try await topology.run("send", "shipper", #"{"next":{"id":"a"}}"#) }
  }

  /// Kills the process of the node `parcel`, and waits for the next one.
  func kill() async throws {
    let before = try await topology.pids()["parcel"]
    try await topology.run("kill", "parcel")
    try await topology.await("'parcel' runs again") {
      $0[node: "parcel"]?.isRunning == true && $0[node: "parcel"]?.pid != before
    }
  }

  /// Waits for the event that the shipper sends in its initial state.
  func expectFirst() async throws {
    try await expect(#"{"sent":{"to":"v1 0","steps":1}}"#)
  }

  /// Waits until the node `parcel` is in the state.
  func expect(_ state: String, at location: SourceLocation = #_sourceLocation) async throws {
    let expected = try JSONValue(parsing: state.utf8)
    var last: NodeStatus?
    let isReached: Bool? = try await poll(within: .seconds(60)) {
      let client = try topology.client()
      defer { client.close() }
      last = try await client.directory(fresh: true)[node: "parcel"]?.status
      return last?.state == expected ? true : nil
    }
    #expect(isReached == true, "\(String(describing: last))", sourceLocation: location)
  }

  /// Waits until the journal of the node `parcel` answers a query with these rows.
  func expect(
    _ rows: [String], of query: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let journal = try journal()
    var last: [String] = []
    let isReached: Bool? = try await poll(within: .seconds(60)) {
      last = try journal.run(query)
      return last == rows ? true : nil
    }
    #expect(isReached == true, "\(last)", sourceLocation: location)
  }

  /// Returns the journal of a node.
  func journal(of node: String = "parcel") throws -> JournalFile {
    try JournalFile(of: node, topology: "ward", roots: topology.tool.directory.roots)
  }
}
