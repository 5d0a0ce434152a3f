import PipeRuntime

/// Measures the cost of a journal: the same flow of events and the same round trips with each
/// durability, in turns.
struct DurabilitySection {
  private let setting: Setting
  private let directory: TemporaryDirectory

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    try runOneWay(&report)
    try runRoundTrip(&report)
    report.note(
      "written and synced: \(RawDisk.byteCount) bytes at the end of a file beside the journals")
  }

  private func runOneWay(_ report: inout Report) throws {
    let count = setting.pick(800_000, quick: 160_000)
    let repeats = setting.pick(5, quick: 3)
    var flows = try Durability.allCases.map {
      ($0, try Flow(durability: $0, count: count, in: directory))
    }
    // Discard the first round.
    for round in 0...repeats {
      for index in flows.indices { try flows[index].1.measure(isCounted: round > 0) }
    }
    let baseline = flows[0].1.rates.median
    for (durability, flow) in flows {
      report.add(
        Figure(
          name: "one pipe, \(durability.rawValue)" + (durability == .volatile ? "" : "; none"),
          value: .perSecond(flow.rates.median),
          baseline: durability == .volatile ? nil : .perSecond(baseline),
          target: durability == .process ? .atLeast(.perSecond(200_000)) : nil))
    }
    for (durability, flow) in flows {
      report.add(flow.source, of: "an event, source, \(durability.rawValue)")
      report.add(flow.sink, of: "an event, sink, \(durability.rawValue)")
    }
    report.note(
      "medians of \(repeats) × \(count.grouped) events with \(Payload.byteCount) bytes of JSON; a "
        + "step of the source")
    report.note("sends 8, and a token to itself through a pipe that is recorded as well")
  }

  private func runRoundTrip(_ report: inout Report) throws {
    let repeats = setting.pick(9, quick: 3)
    var trips = try Durability.allCases.map { durability in
      // Make fewer round trips if each waits for the disk, because disks are slow.
      let count = setting.pick(durability == .power ? 500 : 10_000, quick: 500)
      return (durability, try RoundTrips(durability, count: count, in: directory))
    }
    let disk = try RawDisk(in: directory)
    var syncTimes = Samples()
    for round in 0...repeats {
      for index in trips.indices { try trips[index].1.measure(isCounted: round > 0) }
      syncTimes.add(try disk.write(count: 100))
    }
    let baseline = Quantity.seconds(trips[0].1.times.median)
    for (durability, trip) in trips {
      let (name, baseline): (String, Quantity?) =
        switch durability {
        case .volatile: ("none", nil)
        case .process: ("process; none", baseline)
        case .power: ("power; written and synced", .seconds(syncTimes.median))
        }
      report.add(
        Figure(
          name: "node → node → node, " + name, value: .seconds(trip.times.median),
          baseline: baseline, target: durability == .process ? .ratioAtMost(2.5) : nil))
    }
    report.note("medians of \(repeats); a trip with a journal: two records, one in each node")
  }
}
