import PipeRuntime

/// Measures a node with an instance for each key: the rate of new instances, the rate of steps with
/// instances in memory and on disk, the memory of instances, and the time until a restarted node is
/// ready.
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
    // The instances with the highest numbers are in memory. Few of them are busy at the same time.
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
    // All of these instances are in memory. Each gets one event.
    uses.spread.add(try Self.send(count - resident / 2, count, in: keyed).use)
    // None of these instances is in memory when it gets its event.
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
    try compareShards(&report)
    report.note(
      "durability process; the keys are in no order; processor time of the node's process; for shards, "
        + "of the shards and their sender")
  }

  /// Compares a node with four shards with a node of one process.
  private func compareShards(_ report: inout Report) throws {
    let single = try Self.topology("single", "key: key", in: directory)
    let sharded = try Self.topology("sharded", "key: key, shards: 4", in: directory)
    var rates = (single: Samples(), sharded: Samples())
    var times = (single: Samples(), sharded: Samples())
    let steps = setting.pick(400_000, quick: 100_000)
    for round in 0...3 {
      let one = try Self.sendToShards(4_096, steps: steps, in: single)
      let four = try Self.sendToShards(4_096, steps: steps, in: sharded)
      guard round > 0 else { continue }
      rates.single.add(one.rate)
      rates.sharded.add(four.rate)
      times.single.add(one.time)
      times.sharded.add(four.time)
    }
    report.add(
      Figure(
        name: "steps a second with 4 shards; with 1", value: .perSecond(rates.sharded.median),
        baseline: .perSecond(rates.single.median)))
    report.add(
      Figure(
        name: "processor time of a step with 4 shards; with 1",
        value: .seconds(times.sharded.median),
        baseline: .seconds(times.single.median), target: .ratioAtMost(1.1)))
  }

  /// Sends events to each of some keys, and waits until all are applied.
  /// - Returns: The steps per second, and the processor time of a step in all nodes.
  private static func sendToShards(
    _ keys: Int, steps stepCount: Int, in topology: TopologyRun
  ) throws -> (rate: Double, time: Double) {
    let client = topology.client
    @Sendable func time(_ directory: TopologyDirectory) -> Double {
      directory.nodes.compactMap(\.pid).reduce(0) { $0 + ProcessorUse(of: $1).total.time }
    }
    @Sendable func steps(_ directory: TopologyDirectory) -> UInt64 {
      directory.nodes.filter { $0.name.hasPrefix("visitors") }
        .reduce(0) { $0 + ($1.status?.version ?? 0) }
    }
    let before = try Blocking.run { try await client.directory() }
    let times = stepCount / keys
    let count = keys * times
    let (version, used) = (steps(before), time(before))
    let start = Clock.nanoseconds
    _ = try Blocking.run {
      try await client.send("source", KeySource.Event.send(first: 0, end: keys, times: times))
    }
    try topology.wait(until: "all events are applied", isFresh: true) {
      steps($0) >= version + UInt64(count)
    }
    let elapsed = Double(Clock.nanoseconds - start) / 1e9
    return (Double(count) / elapsed, (time(before) - used) / Double(count))
  }

  /// Sends an event for each number of a range, in order, and waits until all events are applied.
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
