import PipeSupport

/// A function that is called with the states or the events of a machine.
enum Middleware<Value: Sendable>: Sendable {
  case inline(@Sendable (Value) -> Void)
  case async(@Sendable (Value) async -> Void, priority: TaskPriority?)

  var queue: MiddlewareQueues.Key? {
    if case .async(_, let priority) = self { .init(priority) } else { nil }
  }
}

extension Runtime {
  /// The queues that the runtime's asynchronous middleware needs.
  var middlewareQueues: Set<MiddlewareQueues.Key> {
    var queues: Set<MiddlewareQueues.Key> = []
    for middleware in stateMiddleware { if let queue = middleware.queue { queues.insert(queue) } }
    for middleware in eventMiddleware { if let queue = middleware.queue { queues.insert(queue) } }
    return queues
  }

  /// Calls `middleware` on every state that the machine enters, within the step.
  public func register(middleware: @escaping @Sendable (State) -> Void) -> Self {
    var runtime = self
    runtime.stateMiddleware.append(.inline(middleware))
    return runtime
  }

  /// Calls `middleware` on every event before its step.
  public func register(middleware: @escaping @Sendable (Event) -> Void) -> Self {
    var runtime = self
    runtime.eventMiddleware.append(.inline(middleware))
    return runtime
  }

  /// Calls `middleware` on every state that the machine enters, concurrently with the steps, but in
  /// the order of the steps.
  /// - Parameter priority: The priority of the task that calls the middleware. Calls with the same
  ///   priority keep their order. Calls with different priorities are not ordered. Default: the
  ///   priority of the sender of the event.
  public func register(
    middleware: @escaping @Sendable (State) async -> Void, priority: TaskPriority? = nil
  ) -> Self {
    var runtime = self
    runtime.stateMiddleware.append(.async(middleware, priority: priority))
    return runtime
  }

  /// Calls `middleware` on every event, concurrently with the steps, but in the order of the steps.
  /// - Parameter priority: The priority of the task that calls the middleware. Calls with the same
  ///   priority keep their order. Calls with different priorities are not ordered. Default: the
  ///   priority of the sender of the event.
  public func register(
    middleware: @escaping @Sendable (Event) async -> Void, priority: TaskPriority? = nil
  ) -> Self {
    var runtime = self
    runtime.eventMiddleware.append(.async(middleware, priority: priority))
    return runtime
  }
}

/// The queues of a machine's asynchronous middleware: one for each priority.
struct MiddlewareQueues: Sendable {
  /// The identity of a queue: its priority.
  struct Key: Hashable, Sendable {
    private let priority: UInt8?

    init(_ priority: TaskPriority?) { self.priority = priority?.rawValue }

    var taskPriority: TaskPriority? { priority.map(TaskPriority.init(rawValue:)) }
  }

  // An array, because there are few queues, and usually one.
  private let queues: [(key: Key, queue: MiddlewareQueue)]

  init(_ keys: Set<Key>, signalCapacity: @escaping @Sendable () -> Void) {
    queues = keys.map {
      ($0, MiddlewareQueue(priority: $0.taskPriority, signalCapacity: signalCapacity))
    }
  }

  var isEmpty: Bool { queues.isEmpty }
  var isFull: Bool { queues.contains { $0.queue.isFull } }

  func append(_ call: @escaping MiddlewareQueue.Call, _ priority: TaskPriority?) {
    let key = Key(priority)
    queues.first { $0.key == key }?.queue.append(call)
  }
}

/// Calls asynchronous middleware one call at a time, in step order.
///
/// The queue is bounded: if the middleware lags 1024 calls behind, the machine waits.
final class MiddlewareQueue: Sendable {
  typealias Call = @Sendable () async -> Void

  private struct State {
    var calls = Queue<Call>()
    var isRunning = false
  }

  private static let capacity = 1024
  private let state = Locked(State())
  private let priority: TaskPriority?
  private let signalCapacity: @Sendable () -> Void

  init(priority: TaskPriority?, signalCapacity: @escaping @Sendable () -> Void) {
    self.priority = priority
    self.signalCapacity = signalCapacity
  }

  var isFull: Bool { state.withLock { $0.calls.count >= Self.capacity } }

  func append(_ call: @escaping Call) {
    let starts = state.withLock { state in
      state.calls.append(call)
      defer { state.isRunning = true }
      return !state.isRunning
    }
    if starts { Task(priority: priority) { await run() } }
  }

  private func run() async {
    while let (call, wasFull) = nextCall() {
      if wasFull { signalCapacity() }
      await call()
    }
  }

  private func nextCall() -> (Call, wasFull: Bool)? {
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
