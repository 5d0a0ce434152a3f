import PipeRuntime
import PipeSupervision

/// What a page in a browser costs two nodes at full rate, beside a hundred idle ones: none, while it is
/// looked at, and where its inspector stands still or has been killed; and what the inspector itself takes.
struct InspectedSection {
  private enum Page: String, CaseIterable {
    case none = "no page"
    /// What the machine makes of the same thing twice: no other ratio says more than this one does.
    case again = "no page, again"
    case live = "page"
    case stopped = "page, stopped"
    case killed = "page, killed"
  }

  private let setting: Setting
  private let directory: TemporaryDirectory

  init(_ setting: Setting) throws {
    self.setting = setting
    directory = try TemporaryDirectory()
  }

  func run(_ report: inout Report) throws {
    let count = setting.pick(600_000, quick: 160_000)
    let repeats = setting.pick(7, quick: 3)
    let flow = try Flow(
      hasPayload: false, count: count, idle: setting.pick(100, quick: 20), in: directory)
    var inspector = (share: Samples(), memory: Samples())
    let turns = try FlowTurns<Page>(rounds: repeats, baseline: .none) {
      try measure(flow.topology, $0, count, &inspector)
    }
    turns.add(to: &report) { _ in [.time, .processorTime] }
    report.add(
      Figure(
        name: "the inspector, cores of processor time, page looked at",
        value: .count(inspector.share.median), target: .atMost(.count(0.10))))
    report.add(
      Figure(
        name: "the inspector, resident", value: .bytes(Int(inspector.memory.median)),
        target: .atMost(.bytes(80_000_000))))
    report.note(
      "of the sink, medians of \(repeats) × \(count.grouped) events without payload, each a step; judged is the "
        + "median of the ratios in the same round;")
    report.note("what it is for 'no page, again' is the machine's own doing")
  }

  private func measure(
    _ topology: TopologyRun, _ page: Page, _ count: Int,
    _ inspector: inout (share: Samples, memory: Samples)
  ) throws -> FlowResult {
    var standIn: PageStandIn?
    if page != .none && page != .again { standIn = try PageStandIn(topology.name, in: directory) }
    defer { if page != .killed { standIn?.kill() } }
    switch page {
    case .stopped: standIn?.inspector.signal(.stop)
    case .killed: standIn?.kill()
    case .none, .again, .live: break
    }
    let pid = page == .live ? standIn?.inspector.pid : nil
    let start = (use: pid.map { ProcessorUse(of: $0) }, time: ContinuousClock.now)
    let before = topology.use(of: "sink")
    let elapsed = try topology.measure("source")
    let use = topology.use(of: "sink").each(of: count, since: before)
    if let pid, let first = start.use {
      let time = ProcessorUse(of: pid).total.time - first.total.time
      let span = ContinuousClock.now - start.time
      inspector.share.add(time / (Double(span.wholeMilliseconds) / 1_000))
      inspector.memory.add(Double(ProcessMemory(of: pid).resident))
    }
    return FlowResult(elapsed: elapsed / Double(count), use: use)
  }
}
