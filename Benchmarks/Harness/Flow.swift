import PipeRuntime

/// A topology with a source that sends events to a sink, with its measurements.
struct Flow {
  private(set) var rates = Samples()
  /// The processor use per event of the source and of the sink.
  private(set) var source = ProcessorUses()
  private(set) var sink = ProcessorUses()
  let topology: TopologyRun
  private let count: Int

  /// - Parameters:
  ///   - count: The number of events in each measurement; a multiple of 8.
  ///   - idle: The number of idle nodes in the same topology.
  ///   - deployment: The text of the deployment file; `nil` if all nodes run on one host.
  ///   - run: The directory in which the run is recorded; `nil` if it is not recorded.
  init(
    hasPayload: Bool = true, durability: Durability = .volatile, count: Int, idle: Int = 0,
    deployment: String? = nil, recordedIn run: String? = nil, in directory: TemporaryDirectory
  ) throws {
    self.count = count
    let name =
      "oneway-" + (hasPayload ? durability.rawValue : "bare") + (deployment == nil ? "" : "-apart")
      + (run == nil ? "" : "-recorded")
    topology = try TopologyRun(
      Self.text(named: name, count: count, hasPayload: hasPayload, durability, idle: idle),
      named: name, deployment: deployment, recordedIn: run, in: directory)
  }

  mutating func measure(isCounted: Bool = true) throws {
    let before = (source: topology.use(of: "source"), sink: topology.use(of: "sink"))
    let elapsed = try topology.measure("source")
    guard isCounted else { return }
    rates.add(Double(count) / elapsed)
    source.add(topology.use(of: "source").perOperation(of: count, since: before.source))
    sink.add(topology.use(of: "sink").perOperation(of: count, since: before.sink))
  }

  private static func text(
    named name: String, count: Int, hasPayload: Bool, _ durability: Durability, idle: Int
  ) -> String {
    let others = (0..<idle).map {
      "\n  idle\($0): { machine: Relay, program: \(Programs.nodes) }"
    }
    return """
      topology: \(name)
      program: \(Programs.own)
      nodes:
        source:
          machine: Source
          parameters: { count: \(count), hasPayload: \(hasPayload) }
          durability: \(durability.rawValue)
          required: true
          restart: { policy: never }
        sink:
          machine: Sink
          parameters: { count: \(count) }
          durability: \(durability.rawValue)
          required: true
          restart: { policy: never }\(others.joined())
      pipes:
        - { from: source.out, to: sink.in, capacity: 8192, on_refused: fail }
        - { from: source.again, to: source.in, on_refused: postpone }
        - { from: sink, when: complete, to: source.in, send: complete, on_refused: postpone }
      """
  }
}

/// The result of measuring a flow of events, per event.
struct FlowResult {
  /// The time until the sink has processed the last event, according to the source's clock. Unit:
  /// seconds.
  var elapsed: Double
  /// The processor use of the sink's process.
  var use: ProcessorUse
}

/// Compares a flow of events under several conditions, called cases. The cases take turns, so that
/// other load on the host affects all of them.
///
/// The first round is discarded, and every second round runs in reverse order. The result of a case
/// is the median of its ratios to the baseline case in the same round.
struct FlowComparison<Case: CaseIterable & Hashable & RawRepresentable>
where Case.RawValue == String {
  /// The measurements of a case, and their ratios to the baseline case in the same round.
  private struct CaseSamples {
    var elapsed = Samples()
    var uses = ProcessorUses()
    var ratios = (elapsed: Samples(), time: Samples())
  }

  private var samplesByCase: [Case: CaseSamples] = [:]

  /// - Parameters:
  ///   - baseline: The case to which the others are compared.
  ///   - rounds: Returns the number of rounds in which a case takes part; `nil` for all rounds.
  init(
    rounds repeats: Int, baseline: Case, only rounds: (Case) -> Int? = { _ in nil },
    _ measure: (Case) throws -> FlowResult
  ) rethrows {
    for round in 0...repeats {
      var results: [Case: FlowResult] = [:]
      let all = Array(Case.allCases)
      for flowCase in round.isMultiple(of: 2) ? all : all.reversed()
      where round <= rounds(flowCase) ?? repeats {
        results[flowCase] = try measure(flowCase)
      }
      guard round > 0, let first = results[baseline] else { continue }
      for (flowCase, result) in results {
        samplesByCase[flowCase, default: CaseSamples()].elapsed.add(result.elapsed)
        samplesByCase[flowCase, default: CaseSamples()].uses.add(result.use)
        samplesByCase[flowCase, default: CaseSamples()].ratios.elapsed.add(
          result.elapsed / first.elapsed)
        samplesByCase[flowCase, default: CaseSamples()].ratios.time.add(
          result.use.total.time / first.use.total.time)
      }
    }
    self.baseline = baseline
  }

  private let baseline: Case

  /// Adds the figures of each case to a report, next to the figures of the baseline case.
  /// - Parameters:
  ///   - hasSwitches: Whether the report includes voluntary context switches.
  ///   - judged: Returns the figures of a case that may be at most 2 % above the baseline case.
  func add(
    to report: inout Report, hasSwitches: Bool = false, judged: (Case) -> [JudgedRatio]
  ) {
    guard let first = samplesByCase[baseline] else { return }
    for flowCase in Case.allCases {
      guard let own = samplesByCase[flowCase] else { continue }
      let before = flowCase == baseline ? nil : first
      report.add(
        Figure(
          name: "time of an event, \(flowCase.rawValue)", value: .seconds(own.elapsed.median),
          baseline: (before?.elapsed.median).map { .seconds($0) }))
      report.add(
        Figure(
          name: "processor time of an event, \(flowCase.rawValue)", value: own.uses.time,
          baseline: before?.uses.time))
      if hasSwitches {
        report.add(
          Figure(
            name: "voluntary switches of an event, \(flowCase.rawValue)",
            value: own.uses.switchCount,
            baseline: before?.uses.switchCount))
      }
      guard before != nil else { continue }
      for ratio in judged(flowCase) {
        let samples = ratio == .time ? own.ratios.elapsed : own.ratios.time
        report.add(
          Figure(
            name: "\(ratio.rawValue), \(flowCase.rawValue), of that without",
            value: .count(samples.median), target: .atMost(.count(1.02))))
      }
    }
  }
}

/// A figure that a case must not exceed relative to the baseline case in the same round.
enum JudgedRatio: String {
  case time
  case processorTime = "processor time"
}
