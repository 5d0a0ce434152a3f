import PipeRuntime

/// Measures the number of events per second that a source sends to a sink, as nodes without
/// journals.
struct OneWaySection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let count = setting.pick(800_000, quick: 160_000)
    let repeats = setting.pick(5, quick: 3)
    let directory = try TemporaryDirectory()
    var flowWithPayload = try Flow(count: count, in: directory)
    var flowWithoutPayload = try Flow(hasPayload: false, count: count, in: directory)
    var raw = RawFigures()
    for round in 0...repeats {
      // Discard the first round.
      let result = try RawPair(.flood, count: count, in: directory).flood(count: count)
      if round > 0 { raw.add(result, of: count) }
      try flowWithPayload.measure(isCounted: round > 0)
      try flowWithoutPayload.measure(isCounted: round > 0)
    }
    report.add(
      Figure(
        name: "\(Payload.byteCount) bytes of JSON; raw DEALER–DEALER",
        value: .perSecond(flowWithPayload.rates.median), baseline: .perSecond(raw.rates.median),
        target: .atLeast(.perSecond(250_000))))
    report.add(
      Figure(
        name: "without payload; raw DEALER–DEALER",
        value: .perSecond(flowWithoutPayload.rates.median),
        baseline: .perSecond(raw.rates.median), target: .atLeast(.perSecond(1_000_000))))
    for (flow, name) in [
      (flowWithPayload, "an event"), (flowWithoutPayload, "one without payload"),
    ] {
      report.add(flow.source, of: "\(name), source; raw", baseline: raw.peer)
      report.add(flow.sink, of: "\(name), sink; raw", baseline: raw.own)
    }
    report.note(
      "medians of \(repeats) × \(count.grouped), from the source's first step until it hears that "
        + "the last was taken;")
    report.note(
      "each event is a step of the sink; a step of the source sends 8 events, and a token")
    report.note("to itself; raw: single messages of \(RawSocket.byteCount) bytes over ipc")
  }
}

/// Measures the round trip of an event between two nodes without journals.
struct RoundTripSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let count = setting.pick(10_000, quick: 2_000)
    let repeats = setting.pick(9, quick: 3)
    let directory = try TemporaryDirectory()
    var ours = try RoundTrips(.volatile, count: count, in: directory)
    let raw = try RawPair(.echo, count: 0, in: directory)
    var baseline = RawFigures()
    // Discard the first round.
    _ = try raw.roundTrip(count: count)
    try ours.measure(isCounted: false)
    for _ in 0..<repeats {
      baseline.add(try raw.roundTrip(count: count), of: count)
      try ours.measure()
    }
    report.add(
      Figure(
        name: "node → node → node; raw DEALER–DEALER", value: .seconds(ours.times.median),
        baseline: .seconds(baseline.times.median), target: .ratioAtMost(1.5)))
    report.add(ours.pinger, of: "a trip, pinger; raw", baseline: baseline.own)
    report.add(ours.ponger, of: "a trip, ponger; raw", baseline: baseline.peer)
    report.note(
      "medians of \(repeats) × \(count.grouped); ours \(Quantity.seconds(ours.times.minimum)) to "
        + "\(Quantity.seconds(ours.times.maximum)), raw \(Quantity.seconds(baseline.times.minimum)) to "
        + "\(Quantity.seconds(baseline.times.maximum))")
    report.note(
      "a trip: two steps, two events with \(Payload.byteCount) bytes of JSON written and read;")
    report.note("raw: a message of \(RawSocket.byteCount) bytes over ipc and back")
  }
}

/// A topology with a pinger and a ponger, with its measurements.
struct RoundTrips {
  private(set) var times = Samples()
  /// The processor use per round trip of the pinger and of the ponger.
  private(set) var pinger = ProcessorUses()
  private(set) var ponger = ProcessorUses()
  private let topology: TopologyRun
  private let count: Int

  /// - Parameters:
  ///   - count: The number of round trips in each measurement.
  ///   - deployment: The text of the deployment file; `nil` if all nodes run on one host.
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

  /// Measures a number of round trips.
  /// - Parameter isCounted: `false` for the first measurement, in which connections and caches are
  ///   cold.
  mutating func measure(isCounted: Bool = true) throws {
    let before = (pinger: topology.use(of: "pinger"), ponger: topology.use(of: "ponger"))
    let elapsed = try topology.measure("pinger")
    guard isCounted else { return }
    times.add(elapsed / Double(count))
    pinger.add(topology.use(of: "pinger").perOperation(of: count, since: before.pinger))
    ponger.add(topology.use(of: "ponger").perOperation(of: count, since: before.ponger))
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
