import PipeRuntime

/// Measures the time until a topology is complete again, after half of its nodes were killed at the
/// same time.
struct RecoverySection {
  private let setting: Setting

  private static let nodeCount = 50
  private static let names = (1...nodeCount).map { "n\($0)" }

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    // Kill every second node, so that each pipe loses its sender or its receiver.
    let half = Self.names.enumerated().filter { $0.offset.isMultiple(of: 2) }.map(\.element)
    var ours = Samples()
    var baseline = Samples()
    for round in 1...setting.pick(5, quick: 1) {
      // Start a new topology in each round, because the back-off grows with each restart.
      let topology = try TopologyRun(Self.text, named: "recovery", in: directory)
      let start = Clock.nanoseconds
      _ = try topology.killAndAwait(half)
      try Self.pass(round, through: topology)
      ours.add(Double(Clock.nanoseconds - start) / 1e9)
      baseline.add(try StartSection.spawnSleeping(count: half.count))
    }
    report.add(
      Figure(
        name: "\(half.count) of \(Self.nodeCount) relays killed; /bin/sleep",
        value: .seconds(ours.median), baseline: .seconds(baseline.median),
        target: .atMost(.seconds(5))))
    report.note(
      "median of \(ours.count), greatest \(Quantity.seconds(ours.maximum)): from the first "
        + "SIGKILL until all run and an")
    report.note(
      "event has gone through all \(Self.nodeCount); restart policy, backoff and durability are "
        + "the defaults")
  }

  /// Sends a token to the first relay, and waits until the last relay has received the token.
  private static func pass(_ number: Int, through topology: TopologyRun) throws {
    let client = topology.client
    let token: JSONValue = ["token": ["n": .integer(Int64(number))]]
    let last = names[nodeCount - 1]
    try Blocking.run {
      try await client.send(names[0], json: token)
      _ = try await client.wait(for: last, within: TopologyRun.deadline) { state in
        guard case .object(let cases) = state, case .object(let passing)? = cases["passing"]
        else { return false }
        return passing["n"] == .integer(Int64(number))
      }
    }
  }

  /// A chain of relays with the default settings, as YAML.
  private static var text: String {
    let nodes = names.map { "  \($0): { machine: Relay }" }
    let pipes = zip(names, names.dropFirst()).map { "  - { from: \($0).out, to: \($1).in }" }
    return """
      topology: recovery
      program: \(Programs.nodes)
      nodes:
      \(nodes.joined(separator: "\n"))
      pipes:
      \(pipes.joined(separator: "\n"))
      """
  }
}
