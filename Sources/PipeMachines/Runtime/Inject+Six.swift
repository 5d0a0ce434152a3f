// The functions of Inject.swift for four to six dependencies.

/// Binds the last four arguments of an effect to the dependencies.
public func inject<First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (First, Second, Third, Fourth) async -> Result
) -> () async -> Result {
  { await effect(first, second, third, fourth) }
}

/// Binds the last four arguments of an effect to the dependencies.
public func inject<A, First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (A, First, Second, Third, Fourth) async -> Result
) -> (A) async -> Result {
  { await effect($0, first, second, third, fourth) }
}

/// Binds the last four arguments of an effect to the dependencies.
public func inject<A, B, First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (A, B, First, Second, Third, Fourth) async -> Result
) -> (A, B) async -> Result {
  { await effect($0, $1, first, second, third, fourth) }
}

/// Binds the last four arguments of an effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (A, B, C, First, Second, Third, Fourth) async -> Result
) -> (A, B, C) async -> Result {
  { await effect($0, $1, $2, first, second, third, fourth) }
}

/// Binds the last five arguments of an effect to the dependencies.
public func inject<First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (First, Second, Third, Fourth, Fifth) async -> Result
) -> () async -> Result {
  { await effect(first, second, third, fourth, fifth) }
}

/// Binds the last five arguments of an effect to the dependencies.
public func inject<A, First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (A, First, Second, Third, Fourth, Fifth) async -> Result
) -> (A) async -> Result {
  { await effect($0, first, second, third, fourth, fifth) }
}

/// Binds the last five arguments of an effect to the dependencies.
public func inject<A, B, First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (A, B, First, Second, Third, Fourth, Fifth) async -> Result
) -> (A, B) async -> Result {
  { await effect($0, $1, first, second, third, fourth, fifth) }
}

/// Binds the last five arguments of an effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (A, B, C, First, Second, Third, Fourth, Fifth) async -> Result
) -> (A, B, C) async -> Result {
  { await effect($0, $1, $2, first, second, third, fourth, fifth) }
}

/// Binds the last six arguments of an effect to the dependencies.
public func inject<First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (First, Second, Third, Fourth, Fifth, Sixth) async -> Result
) -> () async -> Result {
  { await effect(first, second, third, fourth, fifth, sixth) }
}

/// Binds the last six arguments of an effect to the dependencies.
public func inject<A, First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (A, First, Second, Third, Fourth, Fifth, Sixth) async -> Result
) -> (A) async -> Result {
  { await effect($0, first, second, third, fourth, fifth, sixth) }
}

/// Binds the last six arguments of an effect to the dependencies.
public func inject<A, B, First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (A, B, First, Second, Third, Fourth, Fifth, Sixth) async -> Result
) -> (A, B) async -> Result {
  { await effect($0, $1, first, second, third, fourth, fifth, sixth) }
}

/// Binds the last six arguments of an effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (A, B, C, First, Second, Third, Fourth, Fifth, Sixth) async -> Result
) -> (A, B, C) async -> Result {
  { await effect($0, $1, $2, first, second, third, fourth, fifth, sixth) }
}

// The functions of Inject.swift for throwing effects with four to six dependencies.

/// Binds the last four arguments of a throwing effect to the dependencies.
public func inject<First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (First, Second, Third, Fourth) async throws -> Result
) -> () async throws -> Result {
  { try await effect(first, second, third, fourth) }
}

/// Binds the last four arguments of a throwing effect to the dependencies.
public func inject<A, First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (A, First, Second, Third, Fourth) async throws -> Result
) -> (A) async throws -> Result {
  { try await effect($0, first, second, third, fourth) }
}

/// Binds the last four arguments of a throwing effect to the dependencies.
public func inject<A, B, First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (A, B, First, Second, Third, Fourth) async throws -> Result
) -> (A, B) async throws -> Result {
  { try await effect($0, $1, first, second, third, fourth) }
}

/// Binds the last four arguments of a throwing effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Fourth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth,
  in effect: @escaping (A, B, C, First, Second, Third, Fourth) async throws -> Result
) -> (A, B, C) async throws -> Result {
  { try await effect($0, $1, $2, first, second, third, fourth) }
}

/// Binds the last five arguments of a throwing effect to the dependencies.
public func inject<First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (First, Second, Third, Fourth, Fifth) async throws -> Result
) -> () async throws -> Result {
  { try await effect(first, second, third, fourth, fifth) }
}

/// Binds the last five arguments of a throwing effect to the dependencies.
public func inject<A, First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (A, First, Second, Third, Fourth, Fifth) async throws -> Result
) -> (A) async throws -> Result {
  { try await effect($0, first, second, third, fourth, fifth) }
}

/// Binds the last five arguments of a throwing effect to the dependencies.
public func inject<A, B, First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (A, B, First, Second, Third, Fourth, Fifth) async throws -> Result
) -> (A, B) async throws -> Result {
  { try await effect($0, $1, first, second, third, fourth, fifth) }
}

/// Binds the last five arguments of a throwing effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Fourth, Fifth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  in effect: @escaping (A, B, C, First, Second, Third, Fourth, Fifth) async throws -> Result
) -> (A, B, C) async throws -> Result {
  { try await effect($0, $1, $2, first, second, third, fourth, fifth) }
}

/// Binds the last six arguments of a throwing effect to the dependencies.
public func inject<First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (First, Second, Third, Fourth, Fifth, Sixth) async throws -> Result
) -> () async throws -> Result {
  { try await effect(first, second, third, fourth, fifth, sixth) }
}

/// Binds the last six arguments of a throwing effect to the dependencies.
public func inject<A, First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (A, First, Second, Third, Fourth, Fifth, Sixth) async throws -> Result
) -> (A) async throws -> Result {
  { try await effect($0, first, second, third, fourth, fifth, sixth) }
}

/// Binds the last six arguments of a throwing effect to the dependencies.
public func inject<A, B, First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (A, B, First, Second, Third, Fourth, Fifth, Sixth) async throws -> Result
) -> (A, B) async throws -> Result {
  { try await effect($0, $1, first, second, third, fourth, fifth, sixth) }
}

/// Binds the last six arguments of a throwing effect to the dependencies.
public func inject<A, B, C, First, Second, Third, Fourth, Fifth, Sixth, Result>(
  deps first: First, _ second: Second, _ third: Third, _ fourth: Fourth, _ fifth: Fifth,
  _ sixth: Sixth,
  in effect: @escaping (A, B, C, First, Second, Third, Fourth, Fifth, Sixth) async throws -> Result
) -> (A, B, C) async throws -> Result {
  { try await effect($0, $1, $2, first, second, third, fourth, fifth, sixth) }
}
