/// A function that watches the states or the events of a machine.
///
/// It comes as `sending`, so nobody else holds what it captured, and one engine calls it for one
/// value after the other: that is why it may be called from another thread than it was made on.
enum Middleware<Value: Sendable>: Sendable {
  case inline(@Sendable (Value) -> Void)
  case async(@Sendable (Value) async -> Void)
}

extension Runtime {
  /// Calls `middleware` on every state entered, within the step.
  public func register(middleware: sending @escaping (State) -> Void) -> Self {
    nonisolated(unsafe) let middleware = middleware
    var runtime = self
    runtime.stateMiddleware.append(.inline { middleware($0) })
    return runtime
  }

  /// Calls `middleware` on every event before its step.
  public func register(middleware: sending @escaping (Event) -> Void) -> Self {
    nonisolated(unsafe) let middleware = middleware
    var runtime = self
    runtime.eventMiddleware.append(.inline { middleware($0) })
    return runtime
  }

  /// Calls `middleware` on every state entered, beside the steps and in their order.
  public func register(middleware: sending @escaping (State) async -> Void) -> Self {
    nonisolated(unsafe) let middleware = middleware
    var runtime = self
    runtime.stateMiddleware.append(.async { await middleware($0) })
    return runtime
  }

  /// Calls `middleware` on every event, beside the steps and in their order.
  public func register(middleware: sending @escaping (Event) async -> Void) -> Self {
    nonisolated(unsafe) let middleware = middleware
    var runtime = self
    runtime.eventMiddleware.append(.async { await middleware($0) })
    return runtime
  }
}
