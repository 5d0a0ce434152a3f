import PipeRuntime

/// A pinger and a ponger as processes of a topology, and what was measured of them.
struct RoundTrips {
  private(set) var times = Samples()
  /// What a trip takes of the processors in each process.
  private(set) var pinger = ProcessorUses()
  private(set) var ponger = ProcessorUses()
  private let topology: TopologyRun
  private let count: Int

  /// - Parameters:
  ///   - count: Round trips of each measurement.
  ///   - deployment: The text of the deployment file by which it runs; `nil` where all is on one host.
  init(
    _ durability: Durability, count: Int, deployment: String? = nil,
    in directory: TemporaryDirectory
  ) throws {
    self.count = count
    let name = "roundtrip-" + durability.rawValue + (deployment == nil ? "" : "-apart")
    topology = try TopologyRun(
      Self.text(named: name, count: count, durability), named: name, deployment: deployment,
      in: directory)
  }

  /// - Parameter isKept: Not where it is the first: connections and caches are cold.
  mutating func measure(isKept: Bool = true) throws {
    let before = (pinger: topology.use(of: "pinger"), ponger: topology.use(of: "ponger"))
    let elapsed = try topology.measure("pinger")
    guard isKept else { return }
    times.add(elapsed / Double(count))
    pinger.add(topology.use(of: "pinger").each(of: count, since: before.pinger))
    ponger.add(topology.use(of: "ponger").each(of: count, since: before.ponger))
  }

  private static func text(named name: String, count: Int, _ durability: Durability) -> String {
    """
    topology: \(name)
    program: \(Programs.own)
    nodes:
      pinger:
        machine: Pinger
        parameters: { count: \(count) }
        durability: \(durability.rawValue)
        restart: { policy: never }
      ponger:
        machine: Ponger
        durability: \(durability.rawValue)
        restart: { policy: never }
    pipes:
      - { from: pinger.out, to: ponger.in }
      - { from: ponger.out, to: pinger.in }
    """
  }
}
