import PipeRuntime

/// Counts which steps of its nodes, and which synchronized events, a suite has seen a topology take.
///
/// Give it to the topologies of the suite in ``TopologyHarness/Options/coverage``; one collector may be fed
/// by many of them, one after the other or at once. It reads their feeds, so that what led to a step does
/// not matter: an event from the test, from a pipe, an effect.
///
/// Which steps there are is for the author to say. The synchronized events of the composites are read
/// from the topologies themselves.
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
    /// In the order given.
    var expected: [TopologyStep] = []
    var counts: [TopologyStep: Int] = [:]
    var missed: UInt64 = 0
  }

  private let record = Locked(Record())

  /// Makes a collector that has seen nothing yet.
  /// - Parameter steps: Those that are to be seen. Of a node that none of them is about, any step may be
  ///   seen and none need be.
  public init(expecting steps: [TopologyStep] = []) { expect(steps) }

  private func expect(_ steps: [TopologyStep]) {
    record.withLock { record in
      record.expected += steps.filter { !record.expected.contains($0) }
    }
  }

  /// Expects the synchronized events of a topology.
  /// - Returns: What takes the states that its feeds tell.
  package func feed(of composites: [CompositeSpecification]) -> @Sendable (StateChange) -> Void {
    expect(
      composites.flatMap { composite in
        composite.synchronize.map { .synchronized($0.event, by: composite.name) }
      })
    let events = composites.map { ($0.name, Set($0.synchronize.map(\.event))) }
    let steps = Locked(
      FeedSteps(synchronized: Dictionary(events) { first, second in first.union(second) }))
    return { [self] change in
      let (taken, missed) = steps.withLock { steps in
        let missed = steps.missed
        return (steps.take(change), steps.missed - missed)
      }
      record.withLock { record in
        for step in taken { record.counts[step, default: 0] += 1 }
        record.missed += missed
      }
    }
  }
}

// Looking at it.
extension TopologyCoverage {
  /// One step, and how often it was seen.
  public struct Entry: Hashable, Sendable {
    /// The step.
    public var step: TopologyStep
    /// How often it was seen.
    public var seen: Int
  }

  /// Every step that is expected, in the order given; then the synchronized events.
  public var entries: [Entry] {
    record.withLock { record in
      record.expected.map { Entry(step: $0, seen: record.counts[$0] ?? 0) }
    }
  }

  /// The steps that are expected and were not seen.
  public var missing: [TopologyStep] { entries.filter { $0.seen == 0 }.map(\.step) }

  /// Steps that were seen of a node for which others are expected, in the order of their words.
  public var unexpected: [TopologyStep] {
    record.withLock { record in
      let nodes = Set(record.expected.filter(\.isMove).map(\.node))
      return record.counts.keys
        .filter { $0.isMove && nodes.contains($0.node) && !record.expected.contains($0) }
        .sorted { $0.description < $1.description }
    }
  }

  /// The counts as a table, with what was not seen marked.
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
      lines.append("  \(missed) states came too fast to be seen; steps with them are not counted.")
    }
    return lines.joined(separator: "\n")
  }

  /// Asserts that every step was seen. Where none is expected, that is a failure.
  /// - Parameter exceptions: Those that need not be. One that was seen all the same, or that is not
  ///   expected, is a failure too; so is a step that was seen of a node for which others are expected.
  public func assertComplete(
    except exceptions: [TopologyStep] = [], fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) {
    let account = CoverageAccount(
      entries: entries.map { CoverageAccount.Entry(name: $0.step, isSeen: $0.seen > 0) },
      others: unexpected,
      words: CoverageAccount.Words(
        things: "steps", seen: "seen", thingOfOwner: "step that is expected",
        advice: "Have the topology take each, or name those that need not be in 'except:'.",
        adviceWithoutAny:
          "Name steps in 'expecting:', and set 'coverage' of the topology's options."))
    let problems = account.problems(except: exceptions)
    guard !problems.isEmpty else { return }
    FailureReporter.fail(
      (problems + [report]).joined(separator: "\n"),
      at: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }
}

extension TopologyStep {
  fileprivate var isMove: Bool { if case .moved = kind { true } else { false } }
}
