/// Events a second from a source to a sink, both processes of a topology.
struct OneWaySection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let count = setting.pick(800_000, quick: 160_000)
    let repeats = setting.pick(5, quick: 3)
    let directory = try TemporaryDirectory()
    var loaded = try Flow(hasPayload: true, count: count, in: directory)
    var bare = try Flow(hasPayload: false, count: count, in: directory)
    var raw = Samples()
    for round in 0...repeats {
      // The first of each is thrown away.
      let rate = try RawPair(.flood, count: count, in: directory).flood(count: count)
      if round > 0 { raw.add(rate) }
      try loaded.measure(isKept: round > 0)
      try bare.measure(isKept: round > 0)
    }
    report.add(
      Figure(
        name: "\(Payload.byteCount) bytes of JSON; raw DEALER–DEALER",
        value: .perSecond(loaded.rates.median), baseline: .perSecond(raw.median),
        target: .atLeast(.perSecond(250_000))))
    report.add(
      Figure(
        name: "without payload; raw DEALER–DEALER", value: .perSecond(bare.rates.median),
        baseline: .perSecond(raw.median), target: .atLeast(.perSecond(1_000_000))))
    report.note("processor time of an event with payload: \(loaded.costs)")
    report.note("                         and without it: \(bare.costs)")
    report.note(
      "medians of \(repeats) × \(count.grouped), from the source's first step until it hears that "
        + "the last was taken;")
    report.note(
      "each event is a step of the sink; a step of the source sends 8 events, and a token")
    report.note("to itself; raw: single messages of \(RawSocket.byteCount) bytes over ipc")
  }
}

/// A source and a sink, and what was measured of them.
private struct Flow {
  private(set) var rates = Samples()
  private var sourceTimes = Samples()
  private var sinkTimes = Samples()
  private let topology: TopologyRun
  private let count: Int

  init(hasPayload: Bool, count: Int, in directory: TemporaryDirectory) throws {
    self.count = count
    let name = hasPayload ? "oneway" : "oneway-bare"
    topology = try TopologyRun(
      Self.text(named: name, count: count, hasPayload: hasPayload), named: name, in: directory)
  }

  mutating func measure(isKept: Bool) throws {
    let source = topology.processorTime(of: "source")
    let sink = topology.processorTime(of: "sink")
    let elapsed = try topology.measure("source")
    guard isKept else { return }
    rates.add(Double(count) / elapsed)
    sourceTimes.add((topology.processorTime(of: "source") - source) / Double(count))
    sinkTimes.add((topology.processorTime(of: "sink") - sink) / Double(count))
  }

  /// The processor time that an event takes in each process.
  var costs: String {
    "source \(Quantity.seconds(sourceTimes.median)), sink \(Quantity.seconds(sinkTimes.median))"
  }

  private static func text(named name: String, count: Int, hasPayload: Bool) -> String {
    """
    topology: \(name)
    program: \(Programs.own)
    nodes:
      source:
        machine: Source
        parameters: { count: \(count), hasPayload: \(hasPayload) }
        required: true
        restart: { policy: never }
      sink:
        machine: Sink
        parameters: { count: \(count) }
        required: true
        restart: { policy: never }
    pipes:
      - { from: source.out, to: sink.in, capacity: 8192, on_refused: fail }
      - { from: source.again, to: source.in, on_refused: postpone }
      - { from: sink, when: complete, to: source.in, send: complete, on_refused: postpone }
    """
  }
}
