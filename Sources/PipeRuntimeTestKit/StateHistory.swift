import PipeRuntime
import Synchronization

/// The recorded states of a topology's nodes. Expectations search this history for states.
final class StateHistory: Sendable {
  /// A position in the history of a node. A search ignores all states before its start position.
  struct StepPosition: Comparable, Sendable {
    var incarnation: UInt64
    var version: UInt64

    static func < (left: StepPosition, right: StepPosition) -> Bool {
      (left.incarnation, left.version) < (right.incarnation, right.version)
    }
  }

  private struct Node {
    /// The number of states that were discarded. The oldest states are discarded first.
    var droppedCount = 0
    var changes: [StateChange] = []
    /// The index at which the next search starts, counted from the first state that was ever
    /// recorded.
    var position = 0
    var searchStart = StepPosition(incarnation: 0, version: 0)

    /// Returns whether searches consider the state. An intermediate state is considered if the
    /// state at the end of its step is considered. Returns `nil` if the end of this step is not
    /// recorded yet.
    func isConsidered(at index: Int) -> Bool? {
      let change = changes[index]
      if StepPosition(incarnation: change.incarnation, version: change.version) >= searchStart {
        return true
      }
      guard change.isIntermediate else { return false }
      let end = changes[index...].first { next in
        !next.isIntermediate || next.incarnation != change.incarnation
      }
      return end.map {
        StepPosition(incarnation: $0.incarnation, version: $0.version) == searchStart
      }
    }
  }

  private struct Record {
    var nodes: [String: Node] = [:]
    var continuations: [Int: CheckedContinuation<Void, Never>] = [:]
    var lastID = 0
    var hasEnded = false
  }

  private let record = Mutex(Record())
  /// The maximum number of states to keep for a node.
  private static let maximumStateCount = 100_000

  // MARK: Recording of states

  func append(_ change: StateChange) {
    wake { record in
      var node = record.nodes.removeValue(forKey: change.node) ?? Node()
      node.changes.append(change)
      if node.changes.count > Self.maximumStateCount {
        node.changes.removeFirst(Self.maximumStateCount / 2)
        node.droppedCount += Self.maximumStateCount / 2
      }
      record.nodes[change.node] = node
    }
  }

  /// Ends the history, because no more states can arrive.
  func end() { wake { $0.hasEnded = true } }

  /// Makes later searches ignore the node's states before `searchStart`.
  func advance(_ node: String, to searchStart: StepPosition) {
    record.withLock { record in
      let known = record.nodes[node]?.searchStart ?? searchStart
      record.nodes[node, default: Node()].searchStart = max(known, searchStart)
    }
  }

  private func wake(_ change: (inout Record) -> Void) {
    let continuations = record.withLock { record in
      change(&record)
      defer { record.continuations = [:] }
      return record.continuations.values
    }
    for continuation in continuations { continuation.resume() }
  }

  // MARK: Searches for states

  /// Returns the recorded states of a node, oldest first.
  func states(of node: String) -> [StateChange] {
    record.withLock { $0.nodes[node]?.changes ?? [] }
  }

  /// Returns the incarnation of a node's last state; 0 if no state is recorded.
  func incarnation(of node: String) -> UInt64 {
    record.withLock { $0.nodes[node]?.changes.last?.incarnation ?? 0 }
  }

  /// Waits until `search` has found its states. The next search starts after the last of these
  /// states.
  /// - Parameter directory: The directory of the test. The wait continues as long as the processes
  ///   that run in this directory make progress.
  /// - Returns: The states that were found; `nil` if the history has ended.
  func find(
    _ search: StateSearch, of node: String, within limit: Duration, directory: TestDirectory
  ) async throws -> WaitResult<[StateChange]?> {
    try await withStallLimit(limit, of: directory) { [self] in
      var search = search
      var next = 0
      while !Task.isCancelled {
        let (found, count) = record.withLock { record in
          let found = Self.advance(&search, &next, in: &record.nodes[node, default: Node()])
          return (found, Self.count(of: node, in: record))
        }
        if let found { return found }
        guard await waitForChange(of: node, past: count) else { return nil }
      }
      return nil
    }
  }

  private static func advance(
    _ search: inout StateSearch, _ next: inout Int, in node: inout Node
  ) -> [StateChange]? {
    next = max(next, node.position, node.droppedCount)
    while next < node.droppedCount + node.changes.count {
      let change = node.changes[next - node.droppedCount]
      guard let isConsidered = node.isConsidered(at: next - node.droppedCount) else { return nil }
      defer { next += 1 }
      guard isConsidered else { continue }
      if let found = search.add(change) {
        node.position = next
        return found
      }
    }
    return nil
  }

  /// Waits until more than `position` states of the node have been recorded. Returns `false` if the
  /// history has ended.
  private func waitForChange(of node: String, past position: Int) async -> Bool {
    let id = record.withLock { record in
      record.lastID += 1
      return record.lastID
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isDone = record.withLock { record in
          let isDone =
            record.hasEnded || Task.isCancelled || Self.count(of: node, in: record) > position
          if !isDone { record.continuations[id] = continuation }
          return isDone
        }
        if isDone { continuation.resume() }
      }
    } onCancel: {
      record.withLock { $0.continuations.removeValue(forKey: id) }?.resume()
    }
    return record.withLock { !$0.hasEnded || Self.count(of: node, in: $0) > position }
  }

  private static func count(of node: String, in record: borrowing Record) -> Int {
    (record.nodes[node]?.droppedCount ?? 0) + (record.nodes[node]?.changes.count ?? 0)
  }
}
