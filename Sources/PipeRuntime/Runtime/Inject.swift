/// Fixes the last argument of an effect: what it depends on.
///
/// ```swift
/// let effect = inject(dep: Engine(), in: close(speed:engine:))
/// ```
public func inject<each Value, Dependency, Result>(
  dep dependency: Dependency,
  in effect: @escaping (repeat each Value, Dependency) async -> Result
) -> (repeat each Value) async -> Result {
  { (value: repeat each Value) in await call(effect, repeat each value, dependency) }
}

/// Fixes the last two arguments of an effect.
public func inject<each Value, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (repeat each Value, First, Second) async -> Result
) -> (repeat each Value) async -> Result {
  { (value: repeat each Value) in await call(effect, repeat each value, first, second) }
}

/// Fixes the last three arguments of an effect.
public func inject<each Value, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (repeat each Value, First, Second, Third) async -> Result
) -> (repeat each Value) async -> Result {
  { (value: repeat each Value) in await call(effect, repeat each value, first, second, third) }
}

private func call<each Value, Result>(
  _ effect: (repeat each Value) async -> Result, _ value: repeat each Value
) async -> Result { await effect(repeat each value) }
