import PipeRuntime

/// Measures the steps per second of a node with a large state. The events come from a pipe, or from
/// a client that waits for each answer.
struct LargeStatesSection {
  private let setting: Setting
  private let directory: TemporaryDirectory

  /// A size of the state, with the required number of steps per second with a journal.
  private struct Size {
    var name: String
    var byteCount: Int
    var target: Double
  }

  private static let sizes = [
    Size(name: "100 KB", byteCount: 100_000, target: 3_000),
    Size(name: "1 MB", byteCount: 1_000_000, target: 200),
  ]

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    for size in Self.sizes {
      for durability in [Durability.volatile, .process] {
        try run(size, durability, &report)
      }
    }
    report.note("the state is a dictionary; each step changes one of its entries")
    report.note(
      "pipe: until the source hears that the last event was taken; request: one client, one at a time"
    )
  }

  private func run(_ size: Size, _ durability: Durability, _ report: inout Report) throws {
    let count = setting.pick(4_000, quick: 800)
    let requestCount = setting.pick(400, quick: 80)
    let repeats = setting.pick(5, quick: 3)
    let name = "large-\(size.byteCount)-\(durability.rawValue)"
    let topology = try TopologyRun(
      Self.text(named: name, size.byteCount, count, durability), named: name, in: directory)
    var rates = Samples()
    var requestRates = Samples()
    var statelessRates = Samples()
    // Discard the first round.
    for round in 0...repeats {
      let elapsed = try topology.measure("source")
      let requestRate = try request(requestCount, of: topology, includingState: true)
      let statelessRate = try request(requestCount, of: topology, includingState: false)
      guard round > 0 else { continue }
      rates.add(Double(count) / elapsed)
      requestRates.add(requestRate)
      statelessRates.add(statelessRate)
    }
    let journal = durability == .volatile ? "no journal" : "journal"
    report.add(
      Figure(
        name: "\(size.name), \(journal), pipe", value: .perSecond(rates.median),
        target: durability == .volatile ? nil : .atLeast(.perSecond(size.target))))
    report.add(
      Figure(
        name: "\(size.name), \(journal), requests", value: .perSecond(statelessRates.median),
        target: durability == .volatile ? nil : .atLeast(.perSecond(min(size.target, 1_000)))))
    report.add(
      Figure(
        name: "\(size.name), \(journal), requests for the state",
        value: .perSecond(requestRates.median)))
  }

  /// Sends a number of requests, and returns the number of requests per second.
  private func request(
    _ count: Int, of topology: TopologyRun, includingState: Bool
  ) throws -> Double {
    let client = topology.client
    return try Blocking.run {
      let start = Clock.nanoseconds
      for _ in 0..<count {
        try await client.send("other", json: "tick", includingState: includingState)
      }
      return Double(count) / (Double(Clock.nanoseconds - start) / 1e9)
    }
  }

  private static func text(
    named name: String, _ byteCount: Int, _ count: Int, _ durability: Durability
  ) -> String {
    """
    topology: \(name)
    program: \(Programs.own)
    nodes:
      source: { machine: Source, parameters: { count: \(count), hasPayload: false } }
      archive:
        machine: Archive
        parameters: { byteCount: \(byteCount), count: \(count) }
        durability: \(durability.rawValue)
        restart: { policy: never }
      other:
        machine: Archive
        parameters: { byteCount: \(byteCount) }
        durability: \(durability.rawValue)
        restart: { policy: never }
    pipes:
      - { from: source.out, to: archive.in, capacity: 8192, on_refused: fail }
      - { from: source.again, to: source.in, on_refused: postpone }
      - { from: archive, when: complete, to: source.in, send: complete, on_refused: postpone }
    """
  }
}
