import PipeRuntime
import PipeSupervision

/// What a monitor costs a sink that takes events as fast as they come: none, the default one while it reads,
/// stands still or has been killed, and one that asks for every state. They take turns.
struct WatchedSection {
  private enum Watch: String, CaseIterable {
    case none = "no monitor"
    case live = "monitor"
    case stopped = "monitor, stopped"
    case killed = "monitor, killed"
    case steps = "monitor --steps"
    case every = "monitor --every"

    /// Whether a node is not to feel it.
    var isLight: Bool {
      switch self {
      case .live, .stopped, .killed: true
      case .none, .steps, .every: false
      }
    }

    var options: [String] {
      switch self {
      case .none, .live, .stopped, .killed: []
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
    let repeats = setting.pick(9, quick: 3)
    let flow = try Flow(hasPayload: false, count: count, in: directory)
    var measured: [Watch: Measured] = [:]
    // The first round is thrown away, and every other one goes backwards: what the machine does beside this
    // meets all of them.
    for round in 0...repeats {
      var results: [Watch: Result] = [:]
      for watch in round.isMultiple(of: 2) ? Watch.allCases : Watch.allCases.reversed()
      where watch.isLight || watch == .none || round <= 3 {
        results[watch] = try measure(flow.topology, watch, count)
      }
      guard round > 0, let none = results[.none] else { continue }
      for (watch, result) in results { measured[watch, default: Measured()].add(result, none) }
    }
    guard let none = measured[.none] else { return }
    for watch in Watch.allCases {
      guard let own = measured[watch] else { continue }
      add(own, watch, none, &report)
    }
    try addMemory(flow, count, &report)
    report.note(
      "of the sink, medians of up to \(repeats) × \(count.grouped) events without payload, each a step;"
    )
    report.note("judged is the median of the ratios to no monitor in the same round")
  }

  /// What one measurement has given.
  private struct Result {
    /// By the source's clock, until the last event was taken. Unit: seconds.
    var elapsed: Double
    var use: ProcessorUse
  }

  /// What several have, and how many times that is of those in the same round without a monitor.
  private struct Measured {
    var elapsed = Samples()
    var uses = ProcessorUses()
    var ratios = (elapsed: Samples(), time: Samples())

    mutating func add(_ result: Result, _ none: Result) {
      elapsed.add(result.elapsed)
      uses.add(result.use)
      ratios.elapsed.add(result.elapsed / none.elapsed)
      ratios.time.add(result.use.total.time / none.use.total.time)
    }
  }

  private func add(
    _ own: Measured, _ watch: Watch, _ none: Measured, _ report: inout Report
  ) {
    let isFirst = watch == .none
    report.add(
      Figure(
        name: "time of an event, \(watch.rawValue)", value: .seconds(own.elapsed.median),
        baseline: isFirst ? nil : .seconds(none.elapsed.median)))
    report.add(
      Figure(
        name: "processor time of an event, \(watch.rawValue)", value: own.uses.time,
        baseline: isFirst ? nil : none.uses.time))
    report.add(
      Figure(
        name: "voluntary switches of an event, \(watch.rawValue)", value: own.uses.switchCount,
        baseline: isFirst ? nil : none.uses.switchCount))
    guard watch.isLight else { return }
    report.add(
      Figure(
        name: "time, \(watch.rawValue), of that without",
        value: .count(own.ratios.elapsed.median), target: .atMost(.count(1.02))))
    report.add(
      Figure(
        name: "processor time, \(watch.rawValue), of that without",
        value: .count(own.ratios.time.median), target: .atMost(.count(1.02))))
  }

  /// What the sink holds after ten times as many events with a monitor that stands still.
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
    _ topology: TopologyRun, _ watch: Watch, _ count: Int
  ) throws -> Result {
    var monitor: ChildProcess?
    if watch != .none { monitor = try attach(to: topology, watch.options) }
    defer {
      monitor?.signal(.kill)
      monitor?.wait()
    }
    switch watch {
    case .stopped: monitor?.signal(.stop)
    case .killed:
      monitor?.signal(.kill)
      monitor?.wait()
      monitor = nil
    case .none, .live, .steps, .every: break
    }
    let before = topology.use(of: "sink")
    let elapsed = try topology.measure("source")
    return Result(
      elapsed: elapsed / Double(count),
      use: topology.use(of: "sink").each(of: count, since: before))
  }

  /// Starts a monitor of the sink, and waits until the node tells it something.
  private func attach(to topology: TopologyRun, _ options: [String]) throws -> ChildProcess {
    let output = directory.uniquePath("monitor")
    let command = OrchestratorCommand(directory: directory)
    var monitor = try command.spawn(["monitor", "--plain", "sink"] + options, writingTo: output)
    // Of steps nothing is told before there is one.
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
