import PipeSupport
import PipeWire

/// The states of nodes, as they change. The stream ends when the topology ends or the client is
/// closed.
public struct StateStream: AsyncSequence, Sendable {
  private let buffer: StateStreamBuffer
  private let lifetime: Lifetime

  /// Ends the subscription when the last copy of the stream is released.
  private final class Lifetime: Sendable {
    let end: @Sendable () -> Void
    init(_ end: @escaping @Sendable () -> Void) { self.end = end }
    deinit { end() }
  }

  init(buffer: StateStreamBuffer, onEnd: @escaping @Sendable () -> Void) {
    self.buffer = buffer
    lifetime = Lifetime(onEnd)
  }

  /// An iterator over the stream. All iterators of a stream share the stream's changes: each change
  /// is delivered to only one iterator.
  public struct Iterator: AsyncIteratorProtocol {
    let stream: StateStream

    /// Returns the next change; `nil` at the end or on cancellation.
    public mutating func next() async -> StateChange? { await stream.buffer.next() }

    /// Returns the next change; `nil` at the end or on cancellation.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> StateChange? {
      await stream.buffer.next()
    }
  }

  /// Creates an iterator, which shares the changes with the stream's other iterators.
  public func makeAsyncIterator() -> Iterator { Iterator(stream: self) }
}

/// A bounded buffer of changes. The loop's thread writes changes, and a consumer reads them. The
/// buffer counts the changes that it drops.
final class StateStreamBuffer: Sendable {
  private struct State {
    var changes = Queue<StateChange>()
    var waitingConsumers: [(id: UInt64, continuation: CheckedContinuation<StateChange?, Never>)] =
      []
    var droppedCounts: [String: UInt64] = [:]
    var lastID: UInt64 = 0
    var hasEnded = false
  }

  private let state = Locked(State())
  /// The maximum number of changes that wait for the consumer.
  private static let capacity = 8_192

  func append(_ change: StateChange) {
    let resume = state.withLock { state -> (() -> Void)? in
      if state.hasEnded { return nil }
      if !state.waitingConsumers.isEmpty {
        let continuation = state.waitingConsumers.removeFirst().continuation
        return { continuation.resume(returning: change) }
      }
      if state.changes.count >= Self.capacity, let oldest = state.changes.popFirst() {
        state.droppedCounts[oldest.node, default: 0] +=
          oldest.missedCount + (oldest.isRepeated ? 0 : 1)
      }
      state.changes.append(change)
      return nil
    }
    resume?()
  }

  func end() {
    let waiting = state.withLock { state in
      state.hasEnded = true
      defer { state.waitingConsumers = [] }
      return state.waitingConsumers
    }
    for entry in waiting { entry.continuation.resume(returning: nil) }
  }

  func next() async -> StateChange? {
    let id = state.withLock { state in
      state.lastID += 1
      return state.lastID
    }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let ready = state.withLock { state -> StateChange?? in
          if var change = state.changes.popFirst() {
            if let dropped = state.droppedCounts.removeValue(forKey: change.node) {
              change.missedCount += dropped
            }
            return .some(change)
          }
          if state.hasEnded || Task.isCancelled { return .some(nil) }
          state.waitingConsumers.append((id, continuation))
          return nil
        }
        if let ready { continuation.resume(returning: ready) }
      }
    } onCancel: {
      let continuation = state.withLock { state in
        state.waitingConsumers.firstIndex { $0.id == id }.map {
          state.waitingConsumers.remove(at: $0).continuation
        }
      }
      continuation?.resume(returning: nil)
    }
  }
}

/// Selects which states of a node an observer receives.
public enum WatchedStates: Hashable, Sendable {
  /// Every state, in order. Publishing every state makes a node that processes a million events a
  /// second several times slower.
  case every
  /// The latest state of each node, at most ten times a second, with the node's counters. If only
  /// the counters have changed, the same version is reported again. Publishing these states has no
  /// measurable cost for a node.
  case latest

  /// The topic to subscribe to.
  var topic: FeedTopic {
    switch self {
    case .every: .states(areCommitted: nil)
    case .latest: .summaries(of: nil)
    }
  }
}
