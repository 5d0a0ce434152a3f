import PipeRuntime
import Synchronization

/// All recorded states of a topology's nodes, and the waits for them.
final class StateHistory: Sendable {
  /// An incarnation of a node and a step of it. States before it are no longer considered.
  struct Mark: Comparable, Sendable {
    var incarnation: UInt64
    var version: UInt64

    static func < (left: Mark, right: Mark) -> Bool {
      (left.incarnation, left.version) < (right.incarnation, right.version)
    }
  }

  private struct Node {
    /// The number of states that were discarded.
    var forgotten = 0
    var changes: [StateChange] = []
    /// The position, from the first state recorded, where the next search starts.
    var position = 0
    var mark = Mark(incarnation: 0, version: 0)

    /// Whether a state is considered. A state on the way of a step belongs to that step: `nil` if
    /// the end of the step has not been recorded yet.
    func counts(at index: Int) -> Bool? {
      let change = changes[index]
      if Mark(incarnation: change.incarnation, version: change.version) >= mark { return true }
      guard change.isIntermediate else { return false }
      let end = changes[index...].first { next in
        !next.isIntermediate || next.incarnation != change.incarnation
      }
      return end.map { Mark(incarnation: $0.incarnation, version: $0.version) == mark }
    }
  }

  private struct Record {
    var nodes: [String: Node] = [:]
    var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    var lastID = 0
    var hasEnded = false
  }

  private let record = Mutex(Record())
  /// The maximum number of states kept of a node.
  private static let limit = 100_000

  // MARK: Writing

  func append(_ change: StateChange) {
    wake { record in
      var node = record.nodes.removeValue(forKey: change.node) ?? Node()
      node.changes.append(change)
      if node.changes.count > Self.limit {
        node.changes.removeFirst(Self.limit / 2)
        node.forgotten += Self.limit / 2
      }
      record.nodes[change.node] = node
    }
  }

  /// Marks the end: no more states arrive.
  func end() { wake { $0.hasEnded = true } }

  /// Excludes the node's states before this mark from further searches.
  func advance(_ node: String, to mark: Mark) {
    record.withLock { record in
      let known = record.nodes[node]?.mark ?? mark
      record.nodes[node, default: Node()].mark = max(known, mark)
    }
  }

  private func wake(_ change: (inout Record) -> Void) {
    let waiting = record.withLock { record in
      change(&record)
      defer { record.waiting = [:] }
      return record.waiting.values
    }
    for continuation in waiting { continuation.resume() }
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

  /// Waits until the search has found its states, and starts the next search at the last of them.
  /// - Parameter directory: The directory of the test, whose processes should produce the states.
  /// - Returns: The states, or `nil` if no more states can arrive.
  func find(
    _ search: StateSearch, of node: String, within limit: Duration, directory: TestDirectory
  ) async throws -> Waited<[StateChange]?> {
    try await withStallLimit(limit, of: directory) { [self] in
      var search = search
      var next = 0
      while !Task.isCancelled {
        let (found, count) = record.withLock { record in
          let found = Self.advance(&search, &next, in: &record.nodes[node, default: Node()])
          return (found, Self.count(of: node, in: record))
        }
        if let found { return found }
        guard await hasChange(of: node, past: count) else { return nil }
      }
      return nil
    }
  }

  private static func advance(
    _ search: inout StateSearch, _ next: inout Int, in node: inout Node
  ) -> [StateChange]? {
    next = max(next, node.position, node.forgotten)
    while next < node.forgotten + node.changes.count {
      let change = node.changes[next - node.forgotten]
      guard let counts = node.counts(at: next - node.forgotten) else { return nil }
      defer { next += 1 }
      guard counts else { continue }
      if let found = search.take(change) {
        node.position = next
        return found
      }
    }
    return nil
  }

  /// Waits until there is a state of the node at the position, or no more states can arrive.
  private func hasChange(of node: String, past position: Int) async -> Bool {
    let id = record.withLock { record in
      record.lastID += 1
      return record.lastID
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isDone = record.withLock { record in
          let isDone =
            record.hasEnded || Task.isCancelled || Self.count(of: node, in: record) > position
          if !isDone { record.waiting[id] = continuation }
          return isDone
        }
        if isDone { continuation.resume() }
      }
    } onCancel: {
      record.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
    }
    return record.withLock { !$0.hasEnded || Self.count(of: node, in: $0) > position }
  }

  private static func count(of node: String, in record: borrowing Record) -> Int {
    (record.nodes[node]?.forgotten ?? 0) + (record.nodes[node]?.changes.count ?? 0)
  }
}
