import PipeRuntime

/// A network of nodes that pass tokens to each other without end, with its measurements.
struct TokenNetwork {
  enum Shape: String, CaseIterable {
    case ring
    case star
    case random = "random pipes"
  }

  /// The total number of events of all nodes per second.
  let rate: Double
  /// The processor time of all nodes, divided by the number of events. Unit: seconds.
  let time: Double
  /// The number of voluntary context switches of all nodes, divided by the number of events.
  let switches: Double

  /// The number of tokens per node.
  private static let tokens = 16
  /// The time that the nodes run before the measurement.
  private static let warmUp: Duration = .milliseconds(300)

  /// Starts the nodes, measures them for a while, and ends them.
  /// - Parameter count: The number of nodes; at least 2.
  init(_ shape: Shape, _ count: Int, for duration: Duration) throws {
    let directory = try TemporaryDirectory()
    let name = "crowd"
    let topology = try TopologyRun(
      Self.text(named: name, shape, count), named: name, in: directory)
    let names = Self.names(count)
    try Blocking.run { try await Task.sleep(for: Self.warmUp) }
    let before = try Self.readCounters(at: names, of: topology)
    try Blocking.run { try await Task.sleep(for: duration) }
    let after = try Self.readCounters(at: names, of: topology)
    let events = after.events - before.events
    guard events > 0 else { throw HarnessError("\(shape.rawValue) of \(count): nothing happened") }
    rate = events / (after.time - before.time)
    time = (after.use.time - before.use.time) / events
    switches = (after.use.switches - before.use.switches) / events
  }

  /// Returns the event counts and the processor use of the nodes, read at nearly the same instant.
  private static func readCounters(
    at names: [String], of topology: TopologyRun
  ) throws -> (time: Double, events: Double, use: ProcessorUse.ThreadUse) {
    let client = topology.client
    let deadline = ContinuousClock.now + TopologyRun.deadline
    let (events, time) = try Blocking.run {
      while true {
        let start = Clock.nanoseconds
        let directory = try? await client.directory()
        let end = Clock.nanoseconds
        let counts = names.compactMap { directory?[node: $0]?.status?.events }
        if counts.count == names.count {
          return (Double(counts.reduce(0, +)), (Double(start) + Double(end)) / 2e9)
        }
        guard ContinuousClock.now < deadline else {
          throw HarnessError("not all of \(names.count) nodes answered within a minute")
        }
      }
    }
    let use = names.reduce(into: ProcessorUse.ThreadUse()) { sum, name in
      let threadUse = topology.use(of: name).total
      sum.time += threadUse.time
      sum.switches += threadUse.switches
    }
    return (time, events, use)
  }

  private static func names(_ count: Int) -> [String] { (1...count).map { "n\($0)" } }

  private static func text(named name: String, _ shape: Shape, _ count: Int) -> String {
    let names = names(count)
    var nodes: [String] = []
    var pipes: [(from: String, to: String)] = []
    func add(_ name: String, _ machine: String, _ parameters: String) {
      nodes.append(
        "  \(name): { machine: \(machine), parameters: { \(parameters) }, durability: none }")
    }
    switch shape {
    case .ring:
      for (index, name) in names.enumerated() {
        add(name, "Juggler", "tokens: \(tokens)")
        pipes.append(("\(name).out1", names[(index + 1) % count]))
      }
    case .star:
      add(names[0], "Hub", "leaves: \(count - 1), tokens: \(tokens)")
      for (index, name) in names.enumerated().dropFirst() {
        add(name, "Juggler", "tokens: 0")
        pipes.append(("\(names[0]).out\(index)", name))
        pipes.append(("\(name).out1", names[0]))
      }
    case .random:
      // Use a fixed seed, so that the topology is the same in each run.
      var random = SplitMix64(seed: UInt64(count))
      for (index, name) in names.enumerated() {
        add(name, "Juggler", "outs: 3, tokens: \(tokens)")
        for out in 1...3 {
          let other = (index + Int.random(in: 1..<count, using: &random)) % count
          pipes.append(("\(name).out\(out)", names[other]))
        }
      }
    }
    // Each pipe has enough capacity for all tokens.
    let lines = pipes.map { "  - { from: \($0.from), to: \($0.to).in, capacity: 8192 }" }
    return """
      topology: \(name)
      program: \(Programs.own)
      nodes:
      \(nodes.joined(separator: "\n"))
      pipes:
      \(lines.joined(separator: "\n"))
      """
  }
}
