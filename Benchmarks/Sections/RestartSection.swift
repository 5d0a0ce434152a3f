import PipeRuntime

/// Measures the time until a killed node is ready again, with a small and with a large journal.
struct RestartSection {
  private let setting: Setting

  /// The number of events in the outbox of the node with the large journal.
  private static let outbox = 60_000
  /// The back-off before each restart. Unit: milliseconds.
  private static let backoff = 20

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let directory = try TemporaryDirectory()
    let topology = try TopologyRun(Self.text, named: "restart", in: directory)
    let small = try measure("sink", in: topology)
    try add("a small journal", small, to: &report)
    let client = topology.client
    try Blocking.run {
      // Without a receiver, all events stay in the source's outbox.
      try await client.stop(["sink"])
      try await client.send("source", json: "start")
    }
    try topology.wait(until: "a full outbox", isFresh: true) { directory in
      let status = directory[node: "source"]?.status
      return status?.outs.contains { $0.events == Self.outbox && $0.applied == 0 } ?? false
    }
    try add(
      "\(Self.outbox.grouped) events in its outbox", try measure("source", in: topology),
      to: &report)
    report.note(
      "medians of \(small.count) ends by SIGKILL, from the signal until the orchestrator says that")
    report.note(
      "the node runs, without the backoff of \(Self.backoff) ms; /bin/sleep: from fork until exec")
  }

  private func measure(_ node: String, in topology: TopologyRun) throws -> Samples {
    var times = Samples()
    for _ in 0..<setting.pick(25, quick: 5) {
      times.add(try topology.killAndAwait([node]) - Double(Self.backoff) / 1e3)
    }
    return times
  }

  private func add(_ condition: String, _ times: Samples, to report: inout Report) throws {
    var bare = Samples()
    for _ in 0..<times.count { bare.add(try StartSection.spawnSleeping(count: 1)) }
    report.add(
      Figure(
        name: "killed to ready, \(condition); /bin/sleep", value: .seconds(times.median),
        baseline: .seconds(bare.median), target: .atMost(.seconds(0.1))))
    report.note(
      "least \(Quantity.seconds(times.minimum)), greatest \(Quantity.seconds(times.maximum))")
  }

  private static var text: String {
    let restart =
      "{ max: 1000, window: 1s, backoff: { initial: \(backoff)ms, max: \(backoff)ms } }"
    return """
      topology: restart
      program: \(Programs.own)
      nodes:
        source:
          machine: Source
          parameters: { count: \(outbox) }
          durability: process
          restart: \(restart)
        sink:
          machine: Sink
          parameters: { count: \(outbox) }
          durability: process
          restart: \(restart)
      pipes:
        - { from: source.out, to: sink.in, capacity: 65536, on_refused: fail }
        - { from: source.again, to: source.in, on_refused: postpone }
      """
  }
}
