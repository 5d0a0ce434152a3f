import PipeRuntime
import PipeSupervision
import PipeSystem

/// Measures what it costs to record a run, and how fast the run is compared with its topology and
/// replayed.
///
/// A source sends events to a sink, with and without a recording in turns, so that other load on the
/// host affects both.
struct RecordingSection {
  /// The flows with and without a recording, and their measurements.
  private struct Pair {
    let plain: Flow
    let recorded: Flow
    var rates = (plain: Samples(), recorded: Samples())
    var times = (plain: Samples(), recorded: Samples())
    var ratios = (rate: Samples(), time: Samples())

    mutating func measure(_ count: Int, round: Int) throws {
      let isReversed = !round.isMultiple(of: 2)
      let first = try Self.measure(isReversed ? recorded : plain, count)
      let second = try Self.measure(isReversed ? plain : recorded, count)
      let (own, other) = isReversed ? (first, second) : (second, first)
      // The connections and caches of the first round are cold.
      guard round > 0 else { return }
      rates.recorded.add(own.rate)
      rates.plain.add(other.rate)
      times.recorded.add(own.time)
      times.plain.add(other.time)
      ratios.rate.add(own.rate / other.rate)
      ratios.time.add(own.time / other.time)
    }

    /// Returns the events per second, and the processor time of both nodes for an event.
    private static func measure(
      _ flow: Flow, _ count: Int
    ) throws -> (rate: Double, time: Double) {
      let nodes = ["source", "sink"]
      let before = nodes.map { flow.topology.use(of: $0) }
      let elapsed = try flow.topology.measure("source")
      let time = zip(nodes, before).reduce(0.0) { sum, pair in
        sum + flow.topology.use(of: pair.0).perOperation(of: count, since: pair.1).total.time
      }
      return (Double(count) / elapsed, time)
    }
  }

  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) throws {
    let count = setting.pick(320_000, quick: 80_000)
    let repeats = setting.pick(6, quick: 3)
    let directory = try TemporaryDirectory()
    try add(.volatile, count, repeats, in: directory, &report)
    let run = try add(.process, count, repeats, in: directory, &report)
    try addReplay(of: run, in: directory, &report)
    report.note(
      "medians of \(repeats) × \(count.grouped) events with \(Payload.byteCount) bytes of JSON, with "
        + "and without a recording in turns;")
    report.note("each event is a step of the sink; processor times are sums of both nodes")
  }

  /// Measures a flow with and without a recording.
  /// - Returns: The directory of the recorded run.
  @discardableResult
  private func add(
    _ durability: Durability, _ count: Int, _ repeats: Int, in directory: TemporaryDirectory,
    _ report: inout Report
  ) throws -> String {
    let run = directory.uniquePath("run")
    var pair = Pair(
      plain: try Flow(durability: durability, count: count, in: directory),
      recorded: try Flow(durability: durability, count: count, recordedIn: run, in: directory))
    for round in 0...repeats { try pair.measure(count, round: round) }
    let suffix = durability == .volatile ? "" : ", with journals"
    report.add(
      Figure(
        name: "events with a recording\(suffix); without",
        value: .perSecond(pair.rates.recorded.median),
        baseline: .perSecond(pair.rates.plain.median)))
    report.add(
      Figure(
        name: "the rate with a recording\(suffix), as a part of the other",
        value: .count(pair.ratios.rate.median), target: .atLeast(.count(0.9))))
    report.add(
      Figure(
        name: "processor time of a recorded event\(suffix); of another",
        value: .seconds(pair.times.recorded.median),
        baseline: .seconds(pair.times.plain.median)))
    return run
  }

  /// Measures the comparison of a run with its topology, and its replay.
  private func addReplay(
    of run: String, in directory: TemporaryDirectory, _ report: inout Report
  ) throws {
    let command = OrchestratorCommand(directory: directory)
    var steps = 0.0
    for (verb, options) in [("conform", ["-o", "json"]), ("replay", ["-o", "jsonl"])] {
      let output = directory.uniquePath(verb)
      let start = Clock.nanoseconds
      var process = try command.spawn([verb, run] + options, writingTo: output)
      let status = process.wait()
      let elapsed = Double(Clock.nanoseconds - start) / 1e9
      guard status == .exited(code: 0) else { throw command.failure([verb, run], status) }
      if verb == "conform" {
        let text = FileSystem.contents(of: output) ?? []
        steps = try JSONValue(parsing: text)["steps"]?.integer.map { Double($0) } ?? 0
      }
      report.add(
        Figure(
          name: "steps with '\(verb)'", value: .perSecond(steps / elapsed),
          target: .atLeast(.perSecond(200_000))))
    }
  }
}
