import PipeRuntime

/// A source and a sink as processes of a topology, and what was measured of them.
struct Flow {
  private(set) var rates = Samples()
  /// What an event takes of the processors in each process.
  private(set) var source = ProcessorUses()
  private(set) var sink = ProcessorUses()
  let topology: TopologyRun
  private let count: Int

  /// - Parameters:
  ///   - count: Events that each measurement sends; a multiple of 8.
  ///   - idle: Nodes beside them that do nothing.
  ///   - deployment: The text of the deployment file by which it runs; `nil` where all is on one host.
  init(
    hasPayload: Bool = true, durability: Durability = .volatile, count: Int, idle: Int = 0,
    deployment: String? = nil, in directory: TemporaryDirectory
  ) throws {
    self.count = count
    let name =
      "oneway-" + (hasPayload ? durability.rawValue : "bare") + (deployment == nil ? "" : "-apart")
    topology = try TopologyRun(
      Self.text(named: name, count: count, hasPayload: hasPayload, durability, idle: idle),
      named: name, deployment: deployment, in: directory)
  }

  mutating func measure(isKept: Bool = true) throws {
    let before = (source: topology.use(of: "source"), sink: topology.use(of: "sink"))
    let elapsed = try topology.measure("source")
    guard isKept else { return }
    rates.add(Double(count) / elapsed)
    source.add(topology.use(of: "source").each(of: count, since: before.source))
    sink.add(topology.use(of: "sink").each(of: count, since: before.sink))
  }

  private static func text(
    named name: String, count: Int, hasPayload: Bool, _ durability: Durability, idle: Int
  ) -> String {
    let others = (0..<idle).map {
      "\n  idle\($0): { machine: Relay, program: \(Programs.nodes) }"
    }
    return """
      topology: \(name)
      program: \(Programs.own)
      nodes:
        source:
          machine: Source
          parameters: { count: \(count), hasPayload: \(hasPayload) }
          durability: \(durability.rawValue)
          required: true
          restart: { policy: never }
        sink:
          machine: Sink
          parameters: { count: \(count) }
          durability: \(durability.rawValue)
          required: true
          restart: { policy: never }\(others.joined())
      pipes:
        - { from: source.out, to: sink.in, capacity: 8192, on_refused: fail }
        - { from: source.again, to: source.in, on_refused: postpone }
        - { from: sink, when: complete, to: source.in, send: complete, on_refused: postpone }
      """
  }
}
