/// One event from node A to node B and back, A and B as processes of a topology.
struct RoundTripSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let count = setting.pick(10_000, quick: 2_000)
    let repeats = setting.pick(9, quick: 3)
    let directory = try TemporaryDirectory()
    let topology = try TopologyRun(Self.text(count: count), named: "roundtrip", in: directory)
    let raw = try RawPair(.echo, count: 0, in: directory)
    var ours = Samples()
    var baseline = Samples()
    // The first of each is thrown away: connections and caches are cold.
    _ = try raw.roundTrip(count: count)
    _ = try topology.measure("pinger")
    for _ in 0..<repeats {
      baseline.add(try raw.roundTrip(count: count))
      ours.add(try topology.measure("pinger") / Double(count))
    }
    report.add(
      Figure(
        name: "node → node → node; raw DEALER–DEALER", value: .seconds(ours.median),
        baseline: .seconds(baseline.median), target: .ratioAtMost(1.5)))
    report.note(
      "medians of \(repeats) × \(count.grouped); ours \(Quantity.seconds(ours.least)) to "
        + "\(Quantity.seconds(ours.greatest)), raw \(Quantity.seconds(baseline.least)) to "
        + "\(Quantity.seconds(baseline.greatest))")
    report.note(
      "a trip: two steps, two events with \(Payload.byteCount) bytes of JSON written and read;")
    report.note("raw: a message of \(RawSocket.byteCount) bytes over ipc and back")
  }

  private static func text(count: Int) -> String {
    """
    topology: roundtrip
    program: \(Programs.own)
    nodes:
      pinger: { machine: Pinger, parameters: { count: \(count) }, restart: { policy: never } }
      ponger: { machine: Ponger, restart: { policy: never } }
    pipes:
      - { from: pinger.out, to: ponger.in }
      - { from: ponger.out, to: pinger.in }
    """
  }
}
