import PipeRuntime

/// Measures synchronized events, which either all participants take or none of them.
struct SynchronizedSection {
  private let setting: Setting
  private let directory: TemporaryDirectory

  private static let philosopherCount = 50

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    try runPair(&report)
    try runCosts(&report)
    try runTable(&report)
  }

  private func runPair(_ report: inout Report) throws {
    let count = setting.pick(4_000, quick: 1_000)
    let repeats = setting.pick(9, quick: 3)
    var volatile = try Lamps(2, .volatile, count: count, in: directory)
    var recorded = try Lamps(2, .process, count: count, in: directory)
    var within = try Lamps(2, .volatile, isEmbedded: true, count: count, in: directory)
    let raw = try RawPair(.echo, count: 0, in: directory)
    var baseline = RawFigures()
    for round in 0...repeats {
      // Discard the first round.
      let result = try raw.roundTrip(count: count)
      if round > 0 { baseline.add(result, of: count) }
      try volatile.measure(isCounted: round > 0)
      try recorded.measure(isCounted: round > 0)
      try within.measure(isCounted: round > 0)
    }
    report.add(
      Figure(
        name: "an event of two, none; raw DEALER–DEALER", value: .seconds(volatile.times.median),
        baseline: .seconds(baseline.times.median), target: .ratioAtMost(3)))
    report.add(
      Figure(
        name: "an event of two, process; none", value: .seconds(recorded.times.median),
        baseline: .seconds(volatile.times.median), target: .ratioAtMost(2)))
    report.add(
      Figure(
        name: "an event of two, none, coordinated within one; raw DEALER–DEALER",
        value: .seconds(within.times.median), baseline: .seconds(baseline.times.median),
        target: .ratioAtMost(2.4)))
    report.add(
      Figure(
        name: "processor time of an event of two, all processes", value: volatile.total.time))
    report.add(
      Figure(
        name: "processor time of it within one; in a process of its own",
        value: within.total.time, baseline: volatile.total.time,
        target: .atMost(.seconds(300e-6))))
    report.add(
      Figure(
        name: "voluntary switches of an event of two, all processes",
        value: volatile.total.switches))
    report.add(
      Figure(
        name: "voluntary switches of it within one; in a process of its own",
        value: within.total.switches, baseline: volatile.total.switches,
        target: .atMost(.count(12))))
    for (name, uses) in volatile.uses {
      report.add(uses, of: "an event of two, \(name)")
    }
    for (name, uses) in within.uses {
      report.add(uses, of: "an event of two within lamp1, \(name)")
    }
    report.note(
      "medians of \(repeats) × \(count.grouped), from the call of a task on a client's own thread "
        + "until the caller knows that all have moved")
  }

  /// Measures the messages and records of an event with k participants.
  ///
  /// There are a request and its reply. For each participant, there are PREPARE, YES and COMMIT,
  /// and one ACK after the last event. Each participant writes two records, and the coordinator
  /// writes its own.
  private func runCosts(_ report: inout Report) throws {
    for participantCount in [2, 3] {
      let count = 500
      var lamps = try Lamps(participantCount, .process, count: count, in: directory)
      try lamps.measureCosts()
      let expected = 3 * participantCount * count + participantCount
      report.add(
        Figure(
          name: "messages of an event of \(participantCount), at the coordinator",
          value: .count(lamps.costs.coordinatorMessages),
          target: .exactly(.count(Double(expected + 2 * count) / Double(count)))))
      report.add(
        Figure(
          name: "of these, at the participants",
          value: .count(lamps.costs.participantMessages),
          target: .exactly(.count(Double(expected) / Double(count)))))
      report.add(
        Figure(
          name: "records of it", value: .count(lamps.costs.records),
          target: .exactly(.count(Double(2 * participantCount + 1)))))
    }
    report.note("means of 500 events, one after the other; counted by the processes")
  }

  private func runTable(_ report: inout Report) throws {
    let duration: Duration = .seconds(setting.pick(4, quick: 2))
    let repeats = setting.pick(3, quick: 1)
    for durability in [Durability.volatile, .process] {
      var table = try PhilosophersTable(Self.philosopherCount, durability, in: directory)
      for round in 0...repeats { try table.measure(for: duration, isCounted: round > 0) }
      report.add(
        Figure(
          name: "meals of \(Self.philosopherCount) philosophers, \(durability.rawValue)",
          value: .perSecond(table.rates.median), target: .atLeast(.perSecond(2_000))))
      report.add(
        Figure(
          name: "the least that one had, of the mean", value: .count(table.shares.least),
          target: .atLeast(.count(0.25))))
      report.note(
        "the most: \(table.shares.most.fixed(2)) of the mean; within \(duration.shortText) from "
          + "\(table.meals.least) to \(table.meals.most) meals each")
      report.note("a meal: \(table.costs)")
    }
    report.note("a meal: two synchronized events of three processes")
  }
}
