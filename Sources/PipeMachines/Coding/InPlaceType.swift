import PipeSupport

/// The types whose values can be encoded and decoded in place. Optionals of these types are
/// supported, too.
enum InPlaceType: CaseIterable {
  case int, int8, int16, int32, int64
  case uint, uint8, uint16, uint32, uint64
  case double, float, bool, string

  /// Returns the case that represents `type`. For an optional type, returns the case of the wrapped
  /// type, and `isOptional` is `true`. Returns `nil` if the type is not supported.
  static func find(_ type: Any.Type) -> (InPlaceType, isOptional: Bool)? {
    for candidate in allCases {
      // Compares the types themselves, because a cast to a protocol would search all conformances
      // of the program.
      if candidate.perform(TypeComparison(type: type), false) { return (candidate, false) }
      if candidate.perform(TypeComparison(type: type), true) { return (candidate, true) }
    }
    return nil
  }

  /// Calls the action with the Swift type of this case as a static type, so that the action is
  /// specialized for that type. Returns the result of the action.
  @inline(__always)
  func perform(_ action: some InPlaceAction, _ isOptional: Bool) -> Bool {
    isOptional ? performOptional(action) : perform(action)
  }

  @inline(__always)
  private func perform(_ action: some InPlaceAction) -> Bool {
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
  private func performOptional(_ action: some InPlaceAction) -> Bool {
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

/// An action that is generic over the types of ``InPlaceType``. This file specializes the action
/// for each of these types.
protocol InPlaceAction {
  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool
}

private struct TypeComparison: InPlaceAction {
  let type: Any.Type

  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool { self.type == type }
}

/// An associated value of a case: its key, its offset and its type.
// Contains no object references, because each event would pay for their reference counting.
struct InPlaceField {
  /// The JSON of the key, followed by a colon. The owner of the field frees this memory.
  let keyText: UnsafeRawBufferPointer
  /// The offset of the value in the case's payload. Unit: bytes.
  private let offset: Int
  private let type: InPlaceType
  private let isOptional: Bool

  /// Creates a field; `nil` if values of `type` cannot be encoded and decoded in place.
  init?(_ name: String, _ type: Any.Type, offset: Int) {
    guard let (known, isOptional) = InPlaceType.find(type) else { return nil }
    var text: [UInt8] = []
    JSONText.append(name, to: &text)
    text.append(UInt8(ascii: ":"))
    keyText = text.copied()
    self.type = known
    self.isOptional = isOptional
    self.offset = offset
  }

  @inline(__always)
  private func perform(_ action: some InPlaceAction) -> Bool { type.perform(action, isOptional) }

  /// Returns whether the JSON omits the value, together with its key.
  func isOmitted(in payload: UnsafeRawPointer) -> Bool {
    isOptional && perform(OmissionCheck(address: payload + offset))
  }

  /// Appends the value's JSON; returns `false` if the value cannot be encoded.
  func append(_ payload: UnsafeRawPointer, to bytes: inout [UInt8]) -> Bool {
    withUnsafeMutablePointer(to: &bytes) {
      perform(AppendAction(address: payload + offset, bytes: $0))
    }
  }

  /// Decodes the value, and stores it in the payload. If the text is not supported, returns `false`
  /// and stores nothing.
  func read(_ text: inout InPlaceText, into payload: UnsafeMutableRawPointer) -> Bool {
    withUnsafeMutablePointer(to: &text) {
      perform(ReadAction(address: payload + offset, text: $0))
    }
  }

  /// Stores the value for a missing key. If the key is required, returns `false` and stores
  /// nothing.
  func readMissing(into payload: UnsafeMutableRawPointer) -> Bool {
    isOptional && perform(ReadMissingAction(address: payload + offset))
  }

  func makeSample(_ numbers: inout SplitMix64, in payload: UnsafeMutableRawPointer) {
    withUnsafeMutablePointer(to: &numbers) {
      _ = perform(SampleAction(address: payload + offset, numbers: $0))
    }
  }

  func destroy(in payload: UnsafeMutableRawPointer) {
    _ = perform(DestroyAction(address: payload + offset))
  }
}

extension [UInt8] {
  /// Returns a copy of the bytes in newly allocated memory, which the caller frees.
  func copied() -> UnsafeRawBufferPointer {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 1)
    memory.copyBytes(from: self)
    return UnsafeRawBufferPointer(memory)
  }
}

private struct OmissionCheck: InPlaceAction {
  let address: UnsafeRawPointer

  @inline(__always)
  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool {
    address.assumingMemoryBound(to: type).pointee.isOmitted
  }
}

private struct AppendAction: InPlaceAction {
  let address: UnsafeRawPointer
  let bytes: UnsafeMutablePointer<[UInt8]>

  @inline(__always)
  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool {
    address.assumingMemoryBound(to: type).pointee.append(to: &bytes.pointee)
  }
}

private struct ReadAction: InPlaceAction {
  let address: UnsafeMutableRawPointer
  let text: UnsafeMutablePointer<InPlaceText>

  @inline(__always)
  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool {
    guard let value = Value(&text.pointee) else { return false }
    address.initializeMemory(as: type, to: value)
    return true
  }
}

private struct ReadMissingAction: InPlaceAction {
  let address: UnsafeMutableRawPointer

  @inline(__always)
  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool {
    guard let value = Value.missingValue else { return false }
    address.initializeMemory(as: type, to: value)
    return true
  }
}

private struct SampleAction: InPlaceAction {
  let address: UnsafeMutableRawPointer
  let numbers: UnsafeMutablePointer<SplitMix64>

  @inline(__always)
  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool {
    address.initializeMemory(as: type, to: Value.sample(&numbers.pointee))
    return true
  }
}

private struct DestroyAction: InPlaceAction {
  let address: UnsafeMutableRawPointer

  @inline(__always)
  func perform<Value: InPlaceValue>(as type: Value.Type) -> Bool {
    address.assumingMemoryBound(to: type).deinitialize(count: 1)
    return true
  }
}
