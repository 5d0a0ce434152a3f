import PipeSupport

/// Runs asynchronous middleware one call after the other, in step order.
///
/// Bounded: a machine whose middleware lags 1024 calls behind waits for it.
final class MiddlewareQueue: Sendable {
  typealias Call = @Sendable () async -> Void

  private struct State {
    var calls = Queue<Call>()
    var isRunning = false
  }

  private static let capacity = 1024
  private let state = Locked(State())
  private let madeRoom: @Sendable () -> Void

  init(madeRoom: @escaping @Sendable () -> Void) { self.madeRoom = madeRoom }

  var isFull: Bool { state.withLock { $0.calls.count >= Self.capacity } }

  func append(_ call: @escaping Call) {
    let starts = state.withLock { state in
      state.calls.append(call)
      defer { state.isRunning = true }
      return !state.isRunning
    }
    if starts { Task { await run() } }
  }

  private func run() async {
    while let (call, wasFull) = next() {
      if wasFull { madeRoom() }
      await call()
    }
  }

  private func next() -> (Call, wasFull: Bool)? {
    state.withLock { state in
      let wasFull = state.calls.count >= Self.capacity
      guard let call = state.calls.popFirst() else {
        state.isRunning = false
        return nil
      }
      return (call, wasFull)
    }
  }
}
