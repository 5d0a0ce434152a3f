/// A function that watches the states or the events of a machine.
enum Middleware<Value: Sendable>: Sendable {
  case inline(Handed<(Value) -> Void>)
  case async(Handed<(Value) async -> Void>)
}

extension Runtime {
  /// Calls `middleware` on every state entered, within the step.
  public func register(middleware: sending @escaping (State) -> Void) -> Self {
    var runtime = self
    runtime.stateMiddleware.append(.inline(Handed(middleware)))
    return runtime
  }

  /// Calls `middleware` on every event before its step.
  public func register(middleware: sending @escaping (Event) -> Void) -> Self {
    var runtime = self
    runtime.eventMiddleware.append(.inline(Handed(middleware)))
    return runtime
  }

  /// Calls `middleware` on every state entered, beside the steps and in their order.
  public func register(middleware: sending @escaping (State) async -> Void) -> Self {
    var runtime = self
    runtime.stateMiddleware.append(.async(Handed(middleware)))
    return runtime
  }

  /// Calls `middleware` on every event, beside the steps and in their order.
  public func register(middleware: sending @escaping (Event) async -> Void) -> Self {
    var runtime = self
    runtime.eventMiddleware.append(.async(Handed(middleware)))
    return runtime
  }
}
