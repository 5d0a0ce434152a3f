// swift-format-ignore-file
// The parts of SwiftUI that PipeMachines uses, as Apple declares them, so that `tools/check-portable` can
// compile against them. The functions do nothing.

public struct Binding<Value> {
  public init(
    get: @escaping @isolated(any) @Sendable () -> Value,
    set: @escaping @isolated(any) @Sendable (Value) -> Void
  ) {}
}

public struct NavigationStack {}
public protocol Transition {}
