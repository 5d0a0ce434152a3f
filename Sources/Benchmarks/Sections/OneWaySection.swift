/// Events a second from a source to a sink, both processes of a topology that records nothing.
struct OneWaySection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let count = setting.pick(800_000, quick: 160_000)
    let repeats = setting.pick(5, quick: 3)
    let directory = try TemporaryDirectory()
    var loaded = try Flow(count: count, in: directory)
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
