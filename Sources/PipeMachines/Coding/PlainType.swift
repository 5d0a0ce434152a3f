/// The types whose values are written and read in place, each also as an optional.
enum PlainType: CaseIterable {
  case int, int8, int16, int32, int64
  case uint, uint8, uint16, uint32, uint64
  case double, float, bool, string

  /// The type, and whether it is the optional of it; `nil` for any other.
  static func find(_ type: Any.Type) -> (PlainType, isOptional: Bool)? {
    for candidate in allCases {
      // By the type itself: a cast to a protocol looks through all conformances of the program.
      if candidate.perform(Comparing(type: type), false) { return (candidate, false) }
      if candidate.perform(Comparing(type: type), true) { return (candidate, true) }
    }
    return nil
  }

  /// Does something that is compiled for each type.
  @inline(__always)
  func perform(_ action: some PlainAction, _ isOptional: Bool) -> Bool {
    isOptional ? performOptional(action) : perform(action)
  }

  @inline(__always)
  private func perform(_ action: some PlainAction) -> Bool {
    switch self {
    case .int: action.perform(as: Int.self)
    case .int8: action.perform(as: Int8.self)
    case .int16: action.perform(as: Int16.self)
    case .int32: action.perform(as: Int32.self)
    case .int64: action.perform(as: Int64.self)
    case .uint: action.perform(as: UInt.self)
    case .uint8: action.perform(as: UInt8.self)
    case .uint16: action.perform(as: UInt16.self)
    case .uint32: action.perform(as: UInt32.self)
    case .uint64: action.perform(as: UInt64.self)
    case .double: action.perform(as: Double.self)
    case .float: action.perform(as: Float.self)
    case .bool: action.perform(as: Bool.self)
    case .string: action.perform(as: String.self)
    }
  }

  @inline(__always)
  private func performOptional(_ action: some PlainAction) -> Bool {
    switch self {
    case .int: action.perform(as: Int?.self)
    case .int8: action.perform(as: Int8?.self)
    case .int16: action.perform(as: Int16?.self)
    case .int32: action.perform(as: Int32?.self)
    case .int64: action.perform(as: Int64?.self)
    case .uint: action.perform(as: UInt?.self)
    case .uint8: action.perform(as: UInt8?.self)
    case .uint16: action.perform(as: UInt16?.self)
    case .uint32: action.perform(as: UInt32?.self)
    case .uint64: action.perform(as: UInt64?.self)
    case .double: action.perform(as: Double?.self)
    case .float: action.perform(as: Float?.self)
    case .bool: action.perform(as: Bool?.self)
    case .string: action.perform(as: String?.self)
    }
  }
}

/// Something that is done with a value in place.
protocol PlainAction {
  func perform<Value: PlainValue>(as type: Value.Type) -> Bool
}

private struct Comparing: PlainAction {
  let type: Any.Type

  func perform<Value: PlainValue>(as type: Value.Type) -> Bool { self.type == type }
}
