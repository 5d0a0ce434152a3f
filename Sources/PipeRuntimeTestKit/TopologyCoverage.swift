import PipeRuntime

/// Counts the steps of nodes, and the synchronized events, that a suite has seen in a topology.
///
/// Set it as ``TopologyHarness/Options/coverage`` of the suite's topologies. Many topologies may
/// use one collector, in sequence or at the same time. The collector reads their feeds, so the
/// cause of a step does not matter: an event from the test, an event from a pipe, or an effect.
///
/// The author lists the expected steps. The synchronized events of the composites are read from the
/// topologies themselves.
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
    /// The expected steps, in the order given.
    var expected: [TopologyStep] = []
    var counts: [TopologyStep: Int] = [:]
    var missed: UInt64 = 0
  }

  private let record = Locked(Record())

  /// Creates a collector without any counts.
  /// - Parameter steps: The expected steps. A node without expected steps may take any steps, or
  ///   none.
  public init(expecting steps: [TopologyStep] = []) { expect(steps) }

  private func expect(_ steps: [TopologyStep]) {
    record.withLock { record in
      record.expected += steps.filter { !record.expected.contains($0) }
    }
  }

  /// Adds the synchronized events of a topology to the expected steps.
  /// - Returns: A function that receives the states of the topology's feeds.
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
        let missed = steps.missed
        return (steps.add(change), steps.missed - missed)
      }
      record.withLock { record in
        for step in newSteps { record.counts[step, default: 0] += 1 }
        record.missed += missed
      }
    }
  }
}

// Results.
extension TopologyCoverage {
  /// One step with its count.
  public struct Entry: Hashable, Sendable {
    /// The step.
    public var step: TopologyStep
    /// The number of times that the step was seen.
    public var seen: Int
  }

  /// The expected steps in the order given, followed by the synchronized events.
  public var entries: [Entry] {
    record.withLock { record in
      record.expected.map { Entry(step: $0, seen: record.counts[$0] ?? 0) }
    }
  }

  /// The expected steps that were not seen.
  public var missing: [TopologyStep] { entries.filter { $0.seen == 0 }.map(\.step) }

  /// The unexpected steps of nodes that have expected steps, sorted by description.
  public var unexpected: [TopologyStep] {
    record.withLock { record in
      let nodes = Set(record.expected.filter(\.isMove).map(\.node))
      return record.counts.keys
        .filter { $0.isMove && nodes.contains($0.node) && !record.expected.contains($0) }
        .sorted { $0.description < $1.description }
    }
  }

  /// The counts as a table, in which missing steps are marked.
  public var report: String {
    let entries = entries
    let (counts, missed) = record.withLock { ($0.counts, $0.missed) }
    var lines = ["\(entries.count { $0.seen > 0 }) of \(entries.count) steps seen"]
    let rows =
      [["step", "seen", ""]]
      + entries.map { ["\($0.step)", "\($0.seen)", $0.seen == 0 ? "not seen" : ""] }
      + unexpected.map { ["\($0)", "\(counts[$0] ?? 0)", "not expected"] }
    lines += TextTable.lines(rows, rightAligned: [1]).map { "  " + $0 }
    if missed > 0 {
      lines.append("  \(missed) states changed too fast to be seen; their steps are not counted.")
    }
    return lines.joined(separator: "\n")
  }

  /// Asserts that every expected step was seen. Without expected steps, the assertion fails.
  ///
  /// An unexpected step of a node that has expected steps is a failure. An exception that was seen,
  /// or that is not an expected step, is a failure, too.
  /// - Parameter exceptions: The steps that need not be seen.
  public func assertComplete(
    except exceptions: [TopologyStep] = [], fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) {
    let coverageReport = CoverageReport(
      entries: entries.map { CoverageReport.Entry(name: $0.step, isSeen: $0.seen > 0) },
      others: unexpected,
      wording: CoverageReport.Wording(
        items: "steps", seen: "seen", expectedItem: "expected step",
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
