import Synchronization

/// The states that one iterator has not read yet.
final class StateReader<State: Sendable>: Sendable {
  private struct Buffer {
    var states = FIFO<State>()
    var isFinished = false
    var waiting: CheckedContinuation<State?, Never>?
  }

  private let buffer = Mutex(Buffer())
  private let capacity: Int
  private let madeRoom: @Sendable () -> Void
  private let ended: @Sendable (StateReader) -> Void

  init(
    states: [State], capacity: Int, madeRoom: @escaping @Sendable () -> Void,
    ended: @escaping @Sendable (StateReader) -> Void
  ) {
    self.capacity = capacity
    self.madeRoom = madeRoom
    self.ended = ended
    for state in states { append(state) }
  }

  var isFull: Bool { buffer.withLock { $0.states.count >= capacity && !$0.isFinished } }

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

  private enum Found { case state(State, wasFull: Bool), end, nothing }

  func next() async -> State? {
    let found = buffer.withLock { buffer -> Found in
      let wasFull = buffer.states.count >= capacity
      if let state = buffer.states.popFirst() { return .state(state, wasFull: wasFull) }
      return buffer.isFinished ? .end : .nothing
    }
    switch found {
    case .end: return nil
    case .state(let state, let wasFull):
      if wasFull { madeRoom() }
      return state
    case .nothing: return await wait()
    }
  }

  private func wait() async -> State? {
    await withCheckedContinuation { continuation in
      // A state, or the end, may have come since.
      let answer = buffer.withLock { buffer -> State?? in
        if let state = buffer.states.popFirst() { return .some(state) }
        if buffer.isFinished { return .some(nil) }
        precondition(buffer.waiting == nil, "An iterator is read by one task at a time.")
        buffer.waiting = continuation
        return nil
      }
      if let answer { continuation.resume(returning: answer) }
    }
  }
}

/// Ends the reader when its iterator is gone.
final class StateReaderHandle<State: Sendable>: Sendable {
  let reader: StateReader<State>

  init(_ reader: StateReader<State>) { self.reader = reader }

  deinit { reader.end() }
}
