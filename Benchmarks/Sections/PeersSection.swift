import PipeRuntime

/// Compares pipes with state machines of Erlang/OTP, and starting a topology with `supervisord`, if
/// they are installed.
struct PeersSection {
  private let setting: Setting
  private let directory: TemporaryDirectory

  private static let nodeCount = 100

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    if let erlang = try ErlangPeer(in: directory) {
      try runErlang(erlang, &report)
    } else {
      report.note("Erlang is missing: 'apt-get install erlang-base' (a tool for this section only)")
    }
    try runSupervisord(&report)
  }

  /// The measurements of one Erlang task.
  private struct TaskSamples {
    var elapsed = Samples()
    var own = Samples()
    var other = Samples()

    mutating func add(_ result: ErlangPeer.Result) {
      elapsed.add(result.elapsed)
      own.add(result.own)
      other.add(result.other)
    }
  }

  private func runErlang(_ erlang: ErlangPeer, _ report: inout Report) throws {
    let repeats = setting.pick(5, quick: 2)
    let casts = setting.pick(400_000, quick: 80_000)
    let calls = setting.pick(10_000, quick: 2_000)
    var flow = try Flow(count: casts, in: directory)
    var bare = try Flow(hasPayload: false, count: casts, in: directory)
    var trips = try RoundTrips(.volatile, count: calls, in: directory)
    var (posts, sends) = (Samples(), Samples())
    var peer: [ErlangPeer.Task: TaskSamples] = [:]
    // Discard the first round.
    for round in 0...repeats {
      for task in ErlangPeer.Task.allCases {
        let isCall = task == .localCalls || task == .calls
        let result = try erlang.measure(task, count: isCall ? calls : casts)
        if round > 0 { peer[task, default: TaskSamples()].add(result) }
      }
      try flow.measure(isCounted: round > 0)
      try bare.measure(isCounted: round > 0)
      try trips.measure(isCounted: round > 0)
      let (post, send) = Blocking.run { (await Self.post(casts), await Self.send(casts)) }
      guard round > 0 else { continue }
      posts.add(post)
      sends.add(send)
    }
    func elapsed(_ task: ErlangPeer.Task) -> Double { peer[task]?.elapsed.median ?? .nan }
    report.add(
      Figure(
        name: "posts in one process; gen_statem casts", value: .perSecond(1 / posts.median),
        baseline: .perSecond(1 / elapsed(.localCasts))))
    report.add(
      Figure(
        name: "sends in one process; gen_statem calls", value: .seconds(sends.median),
        baseline: .seconds(elapsed(.localCalls))))
    report.add(
      Figure(
        name: "\(Payload.byteCount) bytes to a process; distributed casts",
        value: .perSecond(flow.rates.median), baseline: .perSecond(1 / elapsed(.casts)),
        target: .ratioAtLeast(2)))
    add(flow.source, flow.sink, peer[.casts], of: "one with \(Payload.byteCount) bytes", &report)
    report.add(
      Figure(
        name: "without payload; casts of an atom", value: .perSecond(bare.rates.median),
        baseline: .perSecond(1 / elapsed(.bareCasts)), target: .ratioAtLeast(4)))
    add(bare.source, bare.sink, peer[.bareCasts], of: "one without payload", &report)
    report.add(
      Figure(
        name: "to a process and back; distributed calls", value: .seconds(trips.times.median),
        baseline: .seconds(elapsed(.calls)), target: .ratioAtMost(1)))
    add(trips.pinger, trips.ponger, peer[.calls], of: "a trip", &report)
    report.note(
      "medians of \(repeats) × \(casts.grouped) events, and × \(calls.grouped) trips; Erlang's virtual machines"
    )
    report.note("look for work for a while before they wait, which counts as processor time")
  }

  private func add(
    _ own: ProcessorUses, _ other: ProcessorUses, _ peer: TaskSamples?, of operation: String,
    _ report: inout Report
  ) {
    report.add(
      Figure(
        name: "processor time of \(operation), sender", value: own.time,
        baseline: peer.map { .seconds($0.own.median) }))
    report.add(
      Figure(
        name: "processor time of \(operation), receiver", value: other.time,
        baseline: peer.map { .seconds($0.other.median) }))
  }

  /// Posts events to a machine in this process.
  /// - Returns: The time per event. Unit: seconds.
  private static func post(_ count: Int) async -> Double {
    let sink = sink(count)
    let start = Clock.nanoseconds
    for index in 0..<count - 1 { sink.post(event(index)) }
    await sink.send(event(count - 1))
    return Double(Clock.nanoseconds - start) / 1e9 / Double(count)
  }

  private static func send(_ count: Int) async -> Double {
    let sink = sink(count)
    let start = Clock.nanoseconds
    for index in 0..<count { await sink.send(event(index)) }
    return Double(Clock.nanoseconds - start) / 1e9 / Double(count)
  }

  private static func sink(
    _ count: Int
  ) -> AsyncStateMachineSequence<Sink.State, Sink.Event, Never> {
    var parameters = Sink.Parameters()
    parameters.count = count
    return AsyncStateMachineSequence(stateMachine: Sink.stateMachine(parameters))
  }

  private static func event(_ index: Int) -> Sink.Event {
    .reading(sequence: Payload.firstSequence + index, text: Payload.text)
  }

  private func runSupervisord(_ report: inout Report) throws {
    var (ours, peer) = (Samples(), Samples())
    for _ in 0..<setting.pick(3, quick: 1) {
      guard let time = try SupervisordPeer.start(Self.nodeCount, in: directory) else {
        return report.note(SupervisordPeer.missing)
      }
      peer.add(time)
      ours.add(try RelayChain(Self.nodeCount).run(lists: 0).up)
    }
    report.add(
      Figure(
        name: "\(Self.nodeCount) relays: up -d --wait; supervisord", value: .seconds(ours.median),
        baseline: .seconds(peer.median)))
    report.note(
      "supervisord: until it has started as many /bin/sleep; ours are wired, and have journals")
  }
}
