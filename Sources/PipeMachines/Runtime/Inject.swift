// Spelled out for up to three associated values and six dependencies: Swift 6.3 miscompiles an
// asynchronous call whose arguments are a parameter pack and something after it.

/// Fixes the last argument of an effect, which is its dependency.
public func inject<First, Result>(
  dep first: First,
  in effect: @escaping (First) async -> Result
) -> () async -> Result { { await effect(first) } }

/// Fixes the last argument of an effect, which is its dependency.
///
/// ```swift
/// let effect = inject(dep: Engine(), in: close(speed:engine:))
/// ```
public func inject<A, First, Result>(
  dep first: First,
  in effect: @escaping (A, First) async -> Result
) -> (A) async -> Result { { await effect($0, first) } }

/// Fixes the last argument of an effect, which is its dependency.
public func inject<A, B, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, First) async -> Result
) -> (A, B) async -> Result { { await effect($0, $1, first) } }

/// Fixes the last argument of an effect, which is its dependency.
public func inject<A, B, C, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, C, First) async -> Result
) -> (A, B, C) async -> Result { { await effect($0, $1, $2, first) } }

/// Fixes the last two arguments of an effect.
public func inject<First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (First, Second) async -> Result
) -> () async -> Result { { await effect(first, second) } }

/// Fixes the last two arguments of an effect.
public func inject<A, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, First, Second) async -> Result
) -> (A) async -> Result { { await effect($0, first, second) } }

/// Fixes the last two arguments of an effect.
public func inject<A, B, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, First, Second) async -> Result
) -> (A, B) async -> Result { { await effect($0, $1, first, second) } }

/// Fixes the last two arguments of an effect.
public func inject<A, B, C, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, C, First, Second) async -> Result
) -> (A, B, C) async -> Result { { await effect($0, $1, $2, first, second) } }

/// Fixes the last three arguments of an effect.
public func inject<First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (First, Second, Third) async -> Result
) -> () async -> Result { { await effect(first, second, third) } }

/// Fixes the last three arguments of an effect.
public func inject<A, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, First, Second, Third) async -> Result
) -> (A) async -> Result { { await effect($0, first, second, third) } }

/// Fixes the last three arguments of an effect.
public func inject<A, B, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, First, Second, Third) async -> Result
) -> (A, B) async -> Result { { await effect($0, $1, first, second, third) } }

/// Fixes the last three arguments of an effect.
public func inject<A, B, C, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, C, First, Second, Third) async -> Result
) -> (A, B, C) async -> Result { { await effect($0, $1, $2, first, second, third) } }

// As above, for effects that throw. A single set of functions with a typed `throws` is not
// possible: Swift 6.3 crashes when the result of such a function is mapped.

/// Fixes the last argument of an effect that throws, which is its dependency.
public func inject<First, Result>(
  dep first: First,
  in effect: @escaping (First) async throws -> Result
) -> () async throws -> Result { { try await effect(first) } }

/// Fixes the last argument of an effect that throws, which is its dependency.
public func inject<A, First, Result>(
  dep first: First,
  in effect: @escaping (A, First) async throws -> Result
) -> (A) async throws -> Result { { try await effect($0, first) } }

/// Fixes the last argument of an effect that throws, which is its dependency.
public func inject<A, B, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, First) async throws -> Result
) -> (A, B) async throws -> Result { { try await effect($0, $1, first) } }

/// Fixes the last argument of an effect that throws, which is its dependency.
public func inject<A, B, C, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, C, First) async throws -> Result
) -> (A, B, C) async throws -> Result { { try await effect($0, $1, $2, first) } }

/// Fixes the last two arguments of an effect that throws.
public func inject<First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (First, Second) async throws -> Result
) -> () async throws -> Result { { try await effect(first, second) } }

/// Fixes the last two arguments of an effect that throws.
public func inject<A, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, First, Second) async throws -> Result
) -> (A) async throws -> Result { { try await effect($0, first, second) } }

/// Fixes the last two arguments of an effect that throws.
public func inject<A, B, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, First, Second) async throws -> Result
) -> (A, B) async throws -> Result { { try await effect($0, $1, first, second) } }

/// Fixes the last two arguments of an effect that throws.
public func inject<A, B, C, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, C, First, Second) async throws -> Result
) -> (A, B, C) async throws -> Result { { try await effect($0, $1, $2, first, second) } }

/// Fixes the last three arguments of an effect that throws.
public func inject<First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (First, Second, Third) async throws -> Result
) -> () async throws -> Result { { try await effect(first, second, third) } }

/// Fixes the last three arguments of an effect that throws.
public func inject<A, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, First, Second, Third) async throws -> Result
) -> (A) async throws -> Result { { try await effect($0, first, second, third) } }

/// Fixes the last three arguments of an effect that throws.
public func inject<A, B, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, First, Second, Third) async throws -> Result
) -> (A, B) async throws -> Result { { try await effect($0, $1, first, second, third) } }

/// Fixes the last three arguments of an effect that throws.
public func inject<A, B, C, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, C, First, Second, Third) async throws -> Result
) -> (A, B, C) async throws -> Result { { try await effect($0, $1, $2, first, second, third) } }
