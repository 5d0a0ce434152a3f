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
    var raw = RawFigures()
    for round in 0...repeats {
      // The first of each is thrown away.
      let result = try RawPair(.flood, count: count, in: directory).flood(count: count)
      if round > 0 { raw.add(result, of: count) }
      try loaded.measure(isKept: round > 0)
      try bare.measure(isKept: round > 0)
    }
    report.add(
      Figure(
        name: "\(Payload.byteCount) bytes of JSON; raw DEALER–DEALER",
        value: .perSecond(loaded.rates.median), baseline: .perSecond(raw.rates.median),
        target: .atLeast(.perSecond(250_000))))
    report.add(
      Figure(
        name: "without payload; raw DEALER–DEALER", value: .perSecond(bare.rates.median),
        baseline: .perSecond(raw.rates.median), target: .atLeast(.perSecond(1_000_000))))
    for (flow, name) in [(loaded, "an event"), (bare, "one without payload")] {
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
