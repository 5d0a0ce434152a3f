import PipeRuntime

/// A node with an instance of its machine for each key: how fast instances are created and take
/// steps, in memory or not, what they cost in memory, and how soon the node is ready again.
struct InstancesSection {
  private let setting: Setting
  private let directory: TemporaryDirectory

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    let count = setting.pick(1_000_000, quick: 100_000)
    let resident = count / 10
    let keyed = try Self.topology("keyed", "key: key, resident: \(resident)", in: directory)
    let plain = try Self.topology("plain", "", in: directory)
    var rates = (created: 0.0, resident: Samples(), absent: Samples(), plain: Samples())
    rates.created = try Self.send(0, count, in: keyed).rate
    report.add(
      Figure(
        name: "instances created a second, \(count.grouped)", value: .perSecond(rates.created),
        target: .atLeast(.perSecond(100_000))))
    report.add(
      Figure(
        name: "resident memory, \(resident.grouped) instances in memory",
        value: .bytes(keyed.residentByteCount(of: "visitors")), target: .atMost(.megabytes(200))))
    // The instances with the last numbers are in memory. Few of them are busy at the same time.
    var uses = (
      resident: ProcessorUses(), plain: ProcessorUses(), absent: ProcessorUses(),
      spread: ProcessorUses()
    )
    let busy = 128
    let steps = setting.pick(400_000, quick: 100_000)
    for round in 0...3 {
      let own = try Self.send(count - busy, count, times: steps / busy, in: keyed)
      let baseline = try Self.send(count - busy, count, times: steps / busy, in: plain)
      guard round > 0 else { continue }
      rates.resident.add(own.rate)
      rates.plain.add(baseline.rate)
      uses.resident.add(own.use)
      uses.plain.add(baseline.use)
    }
    // Each of these is in memory, and gets one event.
    uses.spread.add(try Self.send(count - resident / 2, count, in: keyed).use)
    // Each of these has left memory when it gets its event.
    let absentCount = setting.pick(200_000, quick: 20_000)
    let absent = try Self.send(0, absentCount, in: keyed)
    uses.absent.add(absent.use)
    report.add(
      Figure(
        name: "a step of \(busy) busy instances; of an unkeyed node", value: uses.resident.time,
        baseline: uses.plain.time, target: .ratioAtMost(1.3)))
    report.add(
      Figure(
        name: "a step of each of \((resident / 2).grouped) instances in memory",
        value: uses.spread.time))
    report.add(
      Figure(
        name: "a step of an instance that left memory", value: uses.absent.time,
        target: .atMost(.seconds(50e-6))))
    report.add(
      Figure(
        name: "steps a second, busy instances; unkeyed", value: .perSecond(rates.resident.median),
        baseline: .perSecond(rates.plain.median)))
    report.add(
      Figure(
        name: "steps a second, left memory", value: .perSecond(absent.rate)))
    report.add(
      Figure(
        name: "a killed node with \(count.grouped) instances is ready",
        value: .seconds(try keyed.killAndAwait(["visitors"])), target: .atMost(.seconds(1))))
    report.add(
      Figure(
        name: "journal of \(count.grouped) instances",
        value: .bytes(keyed.journalByteCount(of: "visitors"))))
    report.note(
      "durability process; the keys are in no order; processor time of the node's process")
  }

  /// Sends events for each number in turn, and waits until all are applied.
  private static func send(
    _ first: Int, _ end: Int, times: Int = 1, in topology: TopologyRun
  ) throws -> (rate: Double, use: ProcessorUse) {
    let keys = (end - first) / KeySource.burst * KeySource.burst
    let count = keys * times
    let before = topology.use(of: "visitors")
    let version = try topology.version(of: "visitors")
    let start = Clock.nanoseconds
    let client = topology.client
    _ = try Blocking.run {
      try await client.send(
        "source", KeySource.Event.send(first: first, end: first + keys, times: times))
    }
    try topology.wait(until: "all events are applied", isFresh: true) { directory in
      let now = directory[node: "visitors"]?.status?.version ?? 0
      return now >= version + UInt64(count)
    }
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    return (
      Double(count) / elapsed,
      topology.use(of: "visitors").perOperation(of: count, since: before)
    )
  }

  private static func topology(
    _ name: String, _ keys: String, in directory: TemporaryDirectory
  ) throws -> TopologyRun {
    try TopologyRun(
      """
      topology: \(name)
      program: \(Programs.own)
      nodes:
        source: { machine: KeySource, durability: none }
        visitors: { machine: Visitor\(keys.isEmpty ? "" : ", " + keys) }
      pipes:
        - { from: source.out, to: visitors, capacity: 8192, on_refused: fail }
        - { from: source.again, to: source.in }
      """, named: name, in: directory)
  }
}

extension TopologyRun {
  /// Returns the number of steps of a node.
  fileprivate func version(of node: String) throws -> UInt64 {
    let client = client
    return try Blocking.run {
      try await client.directory()[node: node]?.status?.version ?? 0
    }
  }
}
