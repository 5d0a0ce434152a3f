import PipeRuntime
import PipeSupervision

/// Measures what a monitor costs a sink that receives events at full rate. The conditions are: no
/// monitor; a default monitor that is reading, stopped or killed; and a monitor that requests every
/// state. They are measured in turns.
struct WatchedSection {
  private enum MonitorCondition: String, CaseIterable {
    case none = "no monitor"
    /// A repetition of the first condition. Its ratio shows the noise of the host; smaller
    /// differences have no meaning.
    case again = "no monitor, again"
    case live = "monitor"
    case stopped = "monitor, stopped"
    case killed = "monitor, killed"
    case steps = "monitor --steps"
    case every = "monitor --every"

    /// Whether the monitor should have no measurable cost for the node.
    var shouldBeFree: Bool {
      switch self {
      case .live, .stopped, .killed: true
      case .none, .again, .steps, .every: false
      }
    }

    var options: [String] {
      switch self {
      case .none, .again, .live, .stopped, .killed: []
      case .steps: ["--steps"]
      case .every: ["--every"]
      }
    }
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
    let flow = try Flow(hasPayload: false, count: count, in: directory)
    let comparison = try FlowComparison<MonitorCondition>(
      rounds: repeats, baseline: .none, only: { $0 == .steps || $0 == .every ? 3 : nil },
      { try measure(flow.topology, $0, count) })
    comparison.add(to: &report, hasSwitches: true) {
      $0.shouldBeFree || $0 == .again ? [.time, .processorTime] : []
    }
    try addMemory(flow, count, &report)
    report.note(
      "of the sink, medians of up to \(repeats) × \(count.grouped) events without payload, each a step;"
    )
    report.note("judged is the median of the ratios to no monitor in the same round;")
    report.note("what it is for 'no monitor, again' is the machine's own doing")
  }

  /// Measures the sink's memory before and after ten measurements with a stopped monitor.
  private func addMemory(_ flow: Flow, _ count: Int, _ report: inout Report) throws {
    let before = flow.topology.residentByteCount(of: "sink")
    for _ in 0..<10 { _ = try measure(flow.topology, .stopped, count) }
    report.add(
      Figure(
        name: "resident with a stopped monitor; before",
        value: .bytes(flow.topology.residentByteCount(of: "sink")), baseline: .bytes(before),
        target: .ratioAtMost(1.05)))
  }

  private func measure(
    _ topology: TopologyRun, _ monitorCondition: MonitorCondition, _ count: Int
  ) throws -> FlowResult {
    var monitor: ChildProcess?
    if monitorCondition != .none && monitorCondition != .again {
      monitor = try attach(to: topology, monitorCondition.options)
    }
    defer {
      monitor?.signal(.kill)
      monitor?.wait()
    }
    switch monitorCondition {
    case .stopped: monitor?.signal(.stop)
    case .killed:
      monitor?.signal(.kill)
      monitor?.wait()
      monitor = nil
    case .none, .again, .live, .steps, .every: break
    }
    let before = topology.use(of: "sink")
    let elapsed = try topology.measure("source")
    return FlowResult(
      elapsed: elapsed / Double(count),
      use: topology.use(of: "sink").perOperation(of: count, since: before))
  }

  /// Starts a monitor of the sink, and waits until the monitor has received something from the
  /// node.
  private func attach(to topology: TopologyRun, _ options: [String]) throws -> ChildProcess {
    let output = directory.uniquePath("monitor")
    let command = OrchestratorCommand(directory: directory)
    var monitor = try command.spawn(["monitor", "--plain", "sink"] + options, writingTo: output)
    // Cause a step, because otherwise the monitor receives nothing.
    if options.contains("--steps") { _ = try topology.measure("source") }
    let start = ContinuousClock.now
    while HostMachine.text(of: output).isEmpty {
      let exit = monitor.reap()
      guard exit == nil, start.duration(to: .now) < TopologyRun.deadline else {
        throw command.failure(["monitor"], exit)
      }
      Blocking.run { try? await Task.sleep(for: .milliseconds(5)) }
    }
    return monitor
  }
}
