import PipeRuntime

/// Measures a pipe and a round trip over ipc, and in a deployed topology over tcp with keys. Each
/// is compared with libzmq over the same transport.
struct NetworkSection {
  /// The deployment file. All nodes run on this host, but connect as on different hosts.
  private static let deployment = "engine: local\n"

  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    try oneWay(directory, &report)
    try roundTrips(directory, &report)
    report.note("all processes are on this machine, over its loopback network; raw: DEALER–DEALER;")
    report.note("a deployed topology has no tcp without keys, so that tcp alone is raw only")
  }

  private func oneWay(_ directory: TemporaryDirectory, _ report: inout Report) throws {
    let count = setting.pick(400_000, quick: 80_000)
    let repeats = setting.pick(5, quick: 3)
    var ipcPair = try Flow(count: count, in: directory)
    var deployedPair = try Flow(count: count, deployment: Self.deployment, in: directory)
    var raw: [RawTransport: RawFigures] = [:]
    // Discard the first round.
    for round in 0...repeats {
      for transport in RawTransport.allCases {
        let pair = try RawPair(.flood, count: count, over: transport, in: directory)
        let result = try pair.flood(count: count)
        if round > 0 { raw[transport, default: RawFigures()].add(result, of: count) }
      }
      try ipcPair.measure(isCounted: round > 0)
      try deployedPair.measure(isCounted: round > 0)
    }
    for (flow, transport) in [(ipcPair, RawTransport.ipc), (deployedPair, .curve)] {
      guard let baseline = raw[transport] else { continue }
      report.add(
        Figure(
          name: "\(Payload.byteCount) bytes of JSON, \(transport.title); raw over the same",
          value: .perSecond(flow.rates.median), baseline: .perSecond(baseline.rates.median)))
      report.add(
        flow.source, of: "an event, \(transport.title), source; raw", baseline: baseline.peer)
      report.add(flow.sink, of: "an event, \(transport.title), sink; raw", baseline: baseline.own)
    }
    report.add(
      Figure(
        name: "deployed; over ipc", value: .perSecond(deployedPair.rates.median),
        baseline: .perSecond(ipcPair.rates.median)))
    for transport in [RawTransport.tcp, .curve] {
      guard let rawFigures = raw[transport], let ipc = raw[.ipc] else { continue }
      report.add(
        Figure(
          name: "raw, \(transport.title); raw, ipc", value: .perSecond(rawFigures.rates.median),
          baseline: .perSecond(ipc.rates.median)))
    }
  }

  private func roundTrips(_ directory: TemporaryDirectory, _ report: inout Report) throws {
    let count = setting.pick(5_000, quick: 1_000)
    let repeats = setting.pick(7, quick: 3)
    var ipcPair = try RoundTrips(.volatile, count: count, in: directory)
    var deployedPair = try RoundTrips(
      .volatile, count: count, deployment: Self.deployment, in: directory)
    var pairs: [RawTransport: RawPair] = [:]
    var raw: [RawTransport: RawFigures] = [:]
    for transport in RawTransport.allCases {
      pairs[transport] = try RawPair(.echo, count: 0, over: transport, in: directory)
    }
    for round in 0...repeats {
      for (transport, pair) in pairs {
        let result = try pair.roundTrip(count: count)
        if round > 0 { raw[transport, default: RawFigures()].add(result, of: count) }
      }
      try ipcPair.measure(isCounted: round > 0)
      try deployedPair.measure(isCounted: round > 0)
    }
    for (trips, transport) in [(ipcPair, RawTransport.ipc), (deployedPair, .curve)] {
      guard let baseline = raw[transport] else { continue }
      report.add(
        Figure(
          name: "a round trip, \(transport.title); raw over the same",
          value: .seconds(trips.times.median), baseline: .seconds(baseline.times.median)))
      report.add(
        trips.pinger, of: "a trip, \(transport.title), pinger; raw", baseline: baseline.own)
    }
    for transport in [RawTransport.tcp, .curve] {
      guard let rawFigures = raw[transport], let ipc = raw[.ipc] else { continue }
      report.add(
        Figure(
          name: "a raw round trip, \(transport.title); ipc",
          value: .seconds(rawFigures.times.median),
          baseline: .seconds(ipc.times.median)))
    }
  }
}
