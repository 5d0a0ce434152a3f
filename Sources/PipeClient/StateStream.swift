import PipeSupport
import PipeWire

/// The states of nodes as they change. It ends when the topology goes down or the client closes.
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

  /// Reads the stream. All iterators of one stream share its changes.
  public struct Iterator: AsyncIteratorProtocol {
    let stream: StateStream

    /// The next change, or `nil` at the end or on cancellation.
    public mutating func next() async -> StateChange? { await stream.buffer.next() }

    /// The next change, or `nil` at the end or on cancellation.
    public mutating func next(isolation actor: isolated (any Actor)?) async -> StateChange? {
      await stream.buffer.next()
    }
  }

  /// Starts reading.
  public func makeAsyncIterator() -> Iterator { Iterator(stream: self) }
}

/// A bounded buffer for changes between the loop's thread and a consumer. It reports how many
/// changes it has dropped.
final class StateStreamBuffer: Sendable {
  private struct State {
    var changes = Queue<StateChange>()
    var waiting: [(id: UInt64, continuation: CheckedContinuation<StateChange?, Never>)] = []
    var dropped: [String: UInt64] = [:]
    var lastID: UInt64 = 0
    var hasEnded = false
  }

  private let state = Locked(State())
  /// The maximum number of waiting changes. Unit: changes.
  private static let capacity = 8_192

  func append(_ change: StateChange) {
    let resume = state.withLock { state -> (() -> Void)? in
      if state.hasEnded { return nil }
      if !state.waiting.isEmpty {
        let continuation = state.waiting.removeFirst().continuation
        return { continuation.resume(returning: change) }
      }
      if state.changes.count >= Self.capacity, let oldest = state.changes.popFirst() {
        state.dropped[oldest.node, default: 0] += oldest.missed + (oldest.isRepeated ? 0 : 1)
      }
      state.changes.append(change)
      return nil
    }
    resume?()
  }

  func end() {
    let waiting = state.withLock { state in
      state.hasEnded = true
      defer { state.waiting = [] }
      return state.waiting
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
            if let dropped = state.dropped.removeValue(forKey: change.node) {
              change.missed += dropped
            }
            return .some(change)
          }
          if state.hasEnded || Task.isCancelled { return .some(nil) }
          state.waiting.append((id, continuation))
          return nil
        }
        if let ready { continuation.resume(returning: ready) }
      }
    } onCancel: {
      let continuation = state.withLock { state in
        state.waiting.firstIndex { $0.id == id }.map { state.waiting.remove(at: $0).continuation }
      }
      continuation?.resume(returning: nil)
    }
  }
}

/// The selection of a node's states that an observer receives.
public enum WatchedStates: Hashable, Sendable {
  /// Every state, in order. A node writes each of its states for this. A node that takes a million
  /// events a second becomes several times slower.
  case every
  /// The latest state of each node, at most ten times a second, with its counters. If only the
  /// counters have changed, the state comes again with the same version. This has no measurable
  /// cost for a node.
  case latest

  /// The topic to subscribe to.
  var topic: FeedTopic {
    switch self {
    case .every: .states(areCommitted: nil)
    case .latest: .summaries(of: nil)
    }
  }
}
