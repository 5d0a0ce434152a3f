import Synchronization

/// The states that one iterator has not read yet.
final class StateReader<State: Sendable>: Sendable {
  private enum Found: Sendable { case state(State, wasFull: Bool), end, nothing }

  private struct Buffer {
    let capacity: Int
    var states = Queue<State>()
    var isFinished = false
    var waiting: CheckedContinuation<State?, Never>?

    mutating func take() -> Found {
      let wasFull = states.count >= capacity
      if let state = states.popFirst() { return .state(state, wasFull: wasFull) }
      return isFinished ? .end : .nothing
    }
  }

  private let buffer: Mutex<Buffer>
  private let madeRoom: @Sendable () -> Void
  private let ended: @Sendable (StateReader) -> Void

  init(
    states: [State], capacity: Int, madeRoom: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader) -> Void
  ) {
    buffer = Mutex(Buffer(capacity: capacity))
    self.madeRoom = madeRoom
    self.ended = ended
    for state in states { append(state) }
  }

  var isFull: Bool { buffer.withLock { $0.states.count >= $0.capacity && !$0.isFinished } }

  func append(_ state: State) {
    let waiting = buffer.withLock { buffer -> CheckedContinuation<State?, Never>? in
      if buffer.isFinished { return nil }
      if buffer.waiting == nil { buffer.states.append(state) }
      defer { buffer.waiting = nil }
      return buffer.waiting
    }
    waiting?.resume(returning: state)
  }

  func finish() {
    let waiting = buffer.withLock { buffer in
      buffer.isFinished = true
      defer { buffer.waiting = nil }
      return buffer.waiting
    }
    waiting?.resume(returning: nil)
  }

  /// The iterator is gone, or its task is cancelled.
  func end() {
    _ = buffer.withLock { $0.states.removeAll() }
    finish()
    ended(self)
  }

  func next() async -> State? {
    if let answer = answer(buffer.withLock { $0.take() }) { return answer }
    return await withCheckedContinuation { continuation in
      // A state, or the end, may have come since.
      let found = buffer.withLock { buffer in
        let found = buffer.take()
        if case .nothing = found {
          precondition(buffer.waiting == nil, "An iterator is read by one task at a time.")
          buffer.waiting = continuation
        }
        return found
      }
      if let answer = answer(found) { continuation.resume(returning: answer) }
    }
  }

  /// What to answer the iterator; `nil` where it has to wait.
  private func answer(_ found: Found) -> State?? {
    switch found {
    case .end: return .some(nil)
    case .nothing: return nil
    case .state(let state, let wasFull):
      if wasFull { madeRoom() }
      return .some(state)
    }
  }
}

/// Ends the reader when its iterator is gone.
final class StateReaderHandle<State: Sendable>: Sendable {
  let reader: StateReader<State>

  init(_ reader: StateReader<State>) { self.reader = reader }

  deinit { reader.end() }
}
