import PipeRuntime

/// Counts how often a test suite has seen each step of a topology's nodes, and each synchronized
/// event.
///
/// Assign the collector to ``TopologyHarness/Options/coverage`` for each topology of the suite.
/// One collector can serve many topologies, one after another or at the same time. The collector
/// reads the feeds of the topologies. So it counts steps with any cause: an event from the test, an
/// event from a pipe, or an effect.
///
/// List the steps of nodes that you expect. You do not have to list synchronized events: the
/// collector reads them from the composites of the topologies.
///
/// ```swift
/// let coverage = TopologyCoverage(expecting: [
///   .moved("door", from: "open", to: "closing"),
///   .moved("door", from: "closing", to: "closed"),
/// ])
/// var options = TopologyHarness.Options()
/// options.coverage = coverage
/// try await withTopology("topologies/lift.yaml", options: options) { lift in … }
/// coverage.assertComplete()
/// ```
public final class TopologyCoverage: Sendable {
  private struct Record {
    /// The expected steps, in the order in which they were listed.
    var expectedSteps: [TopologyStep] = []
    var stepCounts: [TopologyStep: Int] = [:]
    var missedCount: UInt64 = 0
  }

  private let record = Locked(Record())

  /// Creates a collector. All counts are zero.
  /// - Parameter steps: The expected steps. For a node without expected steps, no step is
  ///   unexpected.
  public init(expecting steps: [TopologyStep] = []) { expect(steps) }

  private func expect(_ steps: [TopologyStep]) {
    record.withLock { record in
      record.expectedSteps += steps.filter { !record.expectedSteps.contains($0) }
    }
  }

  /// Adds the synchronized events of a topology to the expected steps.
  /// - Returns: A function that must be called with each state that the topology's feeds report.
  package func makeRecorder(of composites: [CompositeSpecification])
    -> @Sendable (StateChange) -> Void
  {
    expect(
      composites.flatMap { composite in
        composite.synchronize.map { .synchronized($0.event, by: composite.name) }
      })
    let events = composites.map { ($0.name, Set($0.synchronize.map(\.event))) }
    let steps = Locked(
      StepDetector(synchronized: Dictionary(events) { first, second in first.union(second) }))
    return { [self] change in
      let (newSteps, missed) = steps.withLock { steps in
        let missed = steps.missedStateCount
        return (steps.add(change), steps.missedStateCount - missed)
      }
      record.withLock { record in
        for step in newSteps { record.stepCounts[step, default: 0] += 1 }
        record.missedCount += missed
      }
    }
  }
}

// Results.
extension TopologyCoverage {
  /// A step with its count.
  public struct Entry: Hashable, Sendable {
    /// The step.
    public var step: TopologyStep
    /// The number of times that the step was seen.
    public var seenCount: Int
  }

  /// The expected steps with their counts: first the steps from `expecting:`, then the synchronized
  /// events.
  public var entries: [Entry] {
    record.withLock { record in
      record.expectedSteps.map { Entry(step: $0, seenCount: record.stepCounts[$0] ?? 0) }
    }
  }

  /// The expected steps that were not seen.
  public var unseenSteps: [TopologyStep] { entries.filter { $0.seenCount == 0 }.map(\.step) }

  /// The steps that were seen but not expected, sorted by description. Steps of nodes without
  /// expected steps are not included.
  public var unexpectedSteps: [TopologyStep] {
    record.withLock { record in
      let nodes = Set(record.expectedSteps.filter(\.isMove).map(\.node))
      return record.stepCounts.keys
        .filter { $0.isMove && nodes.contains($0.node) && !record.expectedSteps.contains($0) }
        .sorted { $0.description < $1.description }
    }
  }

  /// The counts as a table. Expected steps that were never seen are marked `not seen`.
  public var report: String {
    let entries = entries
    let (counts, missed) = record.withLock { ($0.stepCounts, $0.missedCount) }
    var lines = ["\(entries.count { $0.seenCount > 0 }) of \(entries.count) steps seen"]
    let rows =
      [["step", "seen", ""]]
      + entries.map { ["\($0.step)", "\($0.seenCount)", $0.seenCount == 0 ? "not seen" : ""] }
      + unexpectedSteps.map { ["\($0)", "\(counts[$0] ?? 0)", "not expected"] }
    lines += TextTable.lines(rows, rightAligned: [1]).map { "  " + $0 }
    if missed > 0 {
      lines.append("  \(missed) states changed too fast to be seen; their steps are not counted.")
    }
    return lines.joined(separator: "\n")
  }

  /// Asserts that every expected step was seen. Fails if no steps are expected.
  ///
  /// Also fails if a node with expected steps takes an unexpected step, and if one of the
  /// `exceptions` was seen or is not an expected step.
  /// - Parameter exceptions: The steps that do not have to be seen.
  public func assertComplete(
    except exceptions: [TopologyStep] = [], fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) {
    let coverageReport = CoverageReport(
      entries: entries.map { CoverageReport.Entry(name: $0.step, isSeen: $0.seenCount > 0) },
      unexpectedNames: unexpectedSteps,
      wording: CoverageReport.Wording(
        items: "steps", seenParticiple: "seen", expectedItem: "expected step",
        advice: "Make the topology take each step, or list exceptions in 'except:'.",
        adviceIfEmpty:
          "List steps in 'expecting:', and set 'coverage' in the options of the topology."))
    let problems = coverageReport.problems(except: exceptions)
    guard !problems.isEmpty else { return }
    FailureReporter.fail(
      (problems + [report]).joined(separator: "\n"),
      at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }
}

extension TopologyStep {
  fileprivate var isMove: Bool { if case .moved = kind { true } else { false } }
}
