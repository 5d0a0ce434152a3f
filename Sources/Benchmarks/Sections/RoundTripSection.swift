/// One event from node A to node B and back, both processes of a topology that records nothing.
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
    // The first of each is thrown away.
    _ = try raw.roundTrip(count: count)
    try ours.measure(isKept: false)
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
      "medians of \(repeats) × \(count.grouped); ours \(Quantity.seconds(ours.times.least)) to "
        + "\(Quantity.seconds(ours.times.greatest)), raw \(Quantity.seconds(baseline.times.least)) to "
        + "\(Quantity.seconds(baseline.times.greatest))")
    report.note(
      "a trip: two steps, two events with \(Payload.byteCount) bytes of JSON written and read;")
    report.note("raw: a message of \(RawSocket.byteCount) bytes over ipc and back")
  }
}
