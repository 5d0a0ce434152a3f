// There is one function for each number of associated values, up to three, and each number of
// dependencies, up to six. A parameter pack cannot replace these functions: Swift 6.3 miscompiles
// an asynchronous call whose arguments are a parameter pack and a further argument.

/// Binds the last argument of an effect to the dependency.
public func inject<First, Result>(
  dep first: First,
  in effect: @escaping (First) async -> Result
) -> () async -> Result { { await effect(first) } }

/// Binds the last argument of an effect to the dependency.
///
/// ```swift
/// let effect = inject(dep: Engine(), in: close(speed:engine:))
/// ```
public func inject<A, First, Result>(
  dep first: First,
  in effect: @escaping (A, First) async -> Result
) -> (A) async -> Result { { await effect($0, first) } }

/// Binds the last argument of an effect to the dependency.
public func inject<A, B, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, First) async -> Result
) -> (A, B) async -> Result { { await effect($0, $1, first) } }

/// Binds the last argument of an effect to the dependency.
public func inject<A, B, C, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, C, First) async -> Result
) -> (A, B, C) async -> Result { { await effect($0, $1, $2, first) } }

/// Binds the last two arguments of an effect to the dependencies.
public func inject<First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (First, Second) async -> Result
) -> () async -> Result { { await effect(first, second) } }

/// Binds the last two arguments of an effect to the dependencies.
public func inject<A, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, First, Second) async -> Result
) -> (A) async -> Result { { await effect($0, first, second) } }

/// Binds the last two arguments of an effect to the dependencies.
public func inject<A, B, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, First, Second) async -> Result
) -> (A, B) async -> Result { { await effect($0, $1, first, second) } }

/// Binds the last two arguments of an effect to the dependencies.
public func inject<A, B, C, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, C, First, Second) async -> Result
) -> (A, B, C) async -> Result { { await effect($0, $1, $2, first, second) } }

/// Binds the last three arguments of an effect to the dependencies.
public func inject<First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (First, Second, Third) async -> Result
) -> () async -> Result { { await effect(first, second, third) } }

/// Binds the last three arguments of an effect to the dependencies.
public func inject<A, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, First, Second, Third) async -> Result
) -> (A) async -> Result { { await effect($0, first, second, third) } }

/// Binds the last three arguments of an effect to the dependencies.
public func inject<A, B, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, First, Second, Third) async -> Result
) -> (A, B) async -> Result { { await effect($0, $1, first, second, third) } }

/// Binds the last three arguments of an effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, C, First, Second, Third) async -> Result
) -> (A, B, C) async -> Result { { await effect($0, $1, $2, first, second, third) } }

// The same functions for effects that throw. One set of functions with a typed `throws` would not
// work: Swift 6.3 crashes when the result of such a function is mapped.

/// Binds the last argument of a throwing effect to the dependency.
public func inject<First, Result>(
  dep first: First,
  in effect: @escaping (First) async throws -> Result
) -> () async throws -> Result { { try await effect(first) } }

/// Binds the last argument of a throwing effect to the dependency.
public func inject<A, First, Result>(
  dep first: First,
  in effect: @escaping (A, First) async throws -> Result
) -> (A) async throws -> Result { { try await effect($0, first) } }

/// Binds the last argument of a throwing effect to the dependency.
public func inject<A, B, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, First) async throws -> Result
) -> (A, B) async throws -> Result { { try await effect($0, $1, first) } }

/// Binds the last argument of a throwing effect to the dependency.
public func inject<A, B, C, First, Result>(
  dep first: First,
  in effect: @escaping (A, B, C, First) async throws -> Result
) -> (A, B, C) async throws -> Result { { try await effect($0, $1, $2, first) } }

/// Binds the last two arguments of a throwing effect to the dependencies.
public func inject<First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (First, Second) async throws -> Result
) -> () async throws -> Result { { try await effect(first, second) } }

/// Binds the last two arguments of a throwing effect to the dependencies.
public func inject<A, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, First, Second) async throws -> Result
) -> (A) async throws -> Result { { try await effect($0, first, second) } }

/// Binds the last two arguments of a throwing effect to the dependencies.
public func inject<A, B, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, First, Second) async throws -> Result
) -> (A, B) async throws -> Result { { try await effect($0, $1, first, second) } }

/// Binds the last two arguments of a throwing effect to the dependencies.
public func inject<A, B, C, First, Second, Result>(
  deps first: First, _ second: Second,
  in effect: @escaping (A, B, C, First, Second) async throws -> Result
) -> (A, B, C) async throws -> Result { { try await effect($0, $1, $2, first, second) } }

/// Binds the last three arguments of a throwing effect to the dependencies.
public func inject<First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (First, Second, Third) async throws -> Result
) -> () async throws -> Result { { try await effect(first, second, third) } }

/// Binds the last three arguments of a throwing effect to the dependencies.
public func inject<A, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, First, Second, Third) async throws -> Result
) -> (A) async throws -> Result { { try await effect($0, first, second, third) } }

/// Binds the last three arguments of a throwing effect to the dependencies.
public func inject<A, B, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, First, Second, Third) async throws -> Result
) -> (A, B) async throws -> Result { { try await effect($0, $1, first, second, third) } }

/// Binds the last three arguments of a throwing effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Result>(
  deps first: First, _ second: Second, _ third: Third,
  in effect: @escaping (A, B, C, First, Second, Third) async throws -> Result
) -> (A, B, C) async throws -> Result { { try await effect($0, $1, $2, first, second, third) } }
