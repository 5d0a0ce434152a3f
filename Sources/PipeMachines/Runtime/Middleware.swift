/// A function that watches the states or the events of a machine.
enum Middleware<Value: Sendable>: Sendable {
  case inline(@Sendable (Value) -> Void)
  case async(@Sendable (Value) async -> Void, priority: TaskPriority?)

  var queue: MiddlewareQueues.Key? {
    if case .async(_, let priority) = self { .init(priority) } else { nil }
  }
}

extension Runtime {
  /// The queues that its asynchronous middleware needs.
  var middlewareQueues: Set<MiddlewareQueues.Key> {
    var queues: Set<MiddlewareQueues.Key> = []
    for middleware in stateMiddleware { if let queue = middleware.queue { queues.insert(queue) } }
    for middleware in eventMiddleware { if let queue = middleware.queue { queues.insert(queue) } }
    return queues
  }

  /// Calls `middleware` on every state entered, within the step.
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

  /// Calls `middleware` on every state entered, beside the steps and in their order.
  /// - Parameter priority: Of the task that calls it. What has one priority keeps its order; middleware
  ///   of another may be called before or after. Default: that of whoever sends the event.
  public func register(
    middleware: @escaping @Sendable (State) async -> Void, priority: TaskPriority? = nil
  ) -> Self {
    var runtime = self
    runtime.stateMiddleware.append(.async(middleware, priority: priority))
    return runtime
  }

  /// Calls `middleware` on every event, beside the steps and in their order.
  /// - Parameter priority: Of the task that calls it. What has one priority keeps its order; middleware
  ///   of another may be called before or after. Default: that of whoever sends the event.
  public func register(
    middleware: @escaping @Sendable (Event) async -> Void, priority: TaskPriority? = nil
  ) -> Self {
    var runtime = self
    runtime.eventMiddleware.append(.async(middleware, priority: priority))
    return runtime
  }
}
