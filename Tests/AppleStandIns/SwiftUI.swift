// swift-format-ignore-file
// What PipeMachines uses of SwiftUI, as Apple declares it, for `tools/check-portable` to compile against.
// Nothing here does anything.

public struct Binding<Value> {
  public init(
    get: @escaping @isolated(any) @Sendable () -> Value,
    set: @escaping @isolated(any) @Sendable (Value) -> Void
  ) {}
}

public struct NavigationStack {}
public protocol Transition {}
