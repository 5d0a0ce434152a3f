import PipeRuntime
import Synchronization

/// The recorded states of a topology's nodes. Expectations wait here for further states.
final class StateHistory: Sendable {
  /// A position in the history of a node: the incarnation and the step. Searches skip all earlier
  /// states.
  struct StepPosition: Comparable, Sendable {
    var incarnation: UInt64
    var version: UInt64

    static func < (left: StepPosition, right: StepPosition) -> Bool {
      (left.incarnation, left.version) < (right.incarnation, right.version)
    }
  }

  private struct Node {
    /// The number of states that were discarded.
    var droppedCount = 0
    var changes: [StateChange] = []
    /// The position where the next search starts, counted from the first state recorded.
    var position = 0
    var searchStart = StepPosition(incarnation: 0, version: 0)

    /// Whether searches consider a state. An intermediate state belongs to the step during which it
    /// occurred. Returns `nil` if the end of that step has not been recorded yet.
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
  /// The maximum number of states kept for a node.
  private static let limit = 100_000

  // MARK: Writing

  func append(_ change: StateChange) {
    wake { record in
      var node = record.nodes.removeValue(forKey: change.node) ?? Node()
      node.changes.append(change)
      if node.changes.count > Self.limit {
        node.changes.removeFirst(Self.limit / 2)
        node.droppedCount += Self.limit / 2
      }
      record.nodes[change.node] = node
    }
  }

  /// Ends the history: no more states arrive.
  func end() { wake { $0.hasEnded = true } }

  /// Excludes the node's states before this position from further searches.
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

  // MARK: Reading

  /// The recorded states of the node, oldest first.
  func states(of node: String) -> [StateChange] {
    record.withLock { $0.nodes[node]?.changes ?? [] }
  }

  /// The incarnation of the node's last state; 0 if there is no state.
  func incarnation(of node: String) -> UInt64 {
    record.withLock { $0.nodes[node]?.changes.last?.incarnation ?? 0 }
  }

  /// Waits until the search has found its states. The next search starts after the last of these
  /// states.
  /// - Parameter directory: The directory of the test, whose processes should produce the states.
  /// - Returns: The states, or `nil` if no more states can arrive.
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

  /// Waits until there is a state of the node at the position. Returns `false` if no more states
  /// can arrive.
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
