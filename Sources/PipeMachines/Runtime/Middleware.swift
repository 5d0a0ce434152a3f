/// A function that watches the states or the events of a machine.
enum Middleware<Value: Sendable>: Sendable {
  case inline(@Sendable (Value) -> Void)
  case async(@Sendable (Value) async -> Void)

  var isAsync: Bool {
    if case .async = self { true } else { false }
  }
}

extension Runtime {
  var hasAsyncMiddleware: Bool {
    stateMiddleware.contains { $0.isAsync } || eventMiddleware.contains { $0.isAsync }
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
  public func register(middleware: @escaping @Sendable (State) async -> Void) -> Self {
    var runtime = self
    runtime.stateMiddleware.append(.async(middleware))
    return runtime
  }

  /// Calls `middleware` on every event, beside the steps and in their order.
  public func register(middleware: @escaping @Sendable (Event) async -> Void) -> Self {
    var runtime = self
    runtime.eventMiddleware.append(.async(middleware))
    return runtime
  }
}
