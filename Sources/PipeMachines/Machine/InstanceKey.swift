import PipeSupport

/// The key of an instance in a keyed node, such as the number of an order or the name of a room.
///
/// Keys are compared byte by byte. Unlike Swift strings, keys that differ only in their Unicode
/// normalization are not equal.
package struct InstanceKey: Hashable, Sendable, CustomStringConvertible {
  /// The maximum size of a key. Unit: bytes.
  package static let maximumByteCount = 1_024

  package let text: String

  /// Creates a key, and checks its length.
  /// - Throws: ``InstanceKeyError/empty`` or ``InstanceKeyError/tooLong(byteCount:)``.
  package init(_ text: String) throws(InstanceKeyError) {
    guard !text.isEmpty else { throw .empty }
    guard text.utf8.count <= Self.maximumByteCount else {
      throw .tooLong(byteCount: text.utf8.count)
    }
    self.text = text
  }

  /// Creates a key from a journal record. The length was checked before the key was recorded.
  package init(recorded text: String) { self.text = text }

  package static func == (left: InstanceKey, right: InstanceKey) -> Bool {
    left.text.utf8.elementsEqual(right.text.utf8)
  }

  package func hash(into hasher: inout Hasher) {
    var text = text
    text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
  }

  package var description: String { text }

  /// The number of slots that keys are mapped to. Each shard of a node owns a range of the slots.
  package static let slotCount = 1_024

  /// The slot of the key. Computed from the 32-bit FNV-1a hash of the key's UTF-8: the high half is
  /// XORed into the low half, and the result is taken modulo ``slotCount``.
  ///
  /// The slot of a key must never change, because senders, clients and journals depend on the slot.
  package var slot: Int {
    let hash = FNV.hash(of: text)
    return Int((hash ^ (hash >> 16)) % UInt32(Self.slotCount))
  }
}

/// The reason why an event does not select an instance.
package enum InstanceKeyError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The event does not have the field.
  case missing(field: String)
  /// The field's value, as JSON, is neither a string nor an integer.
  case unsupported(field: String, value: String)
  case empty
  case tooLong(byteCount: Int)

  package var description: String {
    switch self {
    case .missing(let field):
      "the event has no field '\(field)', which is the key of the instance; send a value for '\(field)'"
    case .unsupported(let field, let value):
      "the field '\(field)' is \(value); the key of an instance is a string or an integer"
    case .empty: "the key of the instance is empty"
    case .tooLong(let byteCount):
      "the key of the instance has \(byteCount) bytes; the limit is \(InstanceKey.maximumByteCount)"
    }
  }
}

/// Reads the key of an instance from a field of an event that is encoded as JSON.
///
/// The field is the associated value that has the label ``field``. If the only associated value has
/// no label, the field is a property of that value.
package struct InstanceKeyReader {
  package let field: String
  private let fieldBytes: [UInt8]
  private var tokens = JSONTokens()

  package init(field: String) {
    self.field = field
    fieldBytes = Array(field.utf8)
  }

  package mutating func key(
    ofEvent bytes: UnsafeRawBufferPointer
  ) throws(InstanceKeyError) -> InstanceKey {
    if !tokens.read(bytes) {
      // Foundation parses a text that `JSONTokens` cannot read. The parsed value is then written in
      // a form that `JSONTokens` can read.
      let plain = (try? JSONValue(parsing: Array(bytes)))?.bytes ?? []
      guard plain.withUnsafeBytes({ tokens.read($0) }) else { throw .missing(field: field) }
      return try key(ofEvent: plain)
    }
    guard let payload = payloadIndex(), let value = keyIndex(in: payload, bytes) else {
      throw .missing(field: field)
    }
    let token = tokens.list[value]
    let text = UnsafeRawBufferPointer(rebasing: bytes[token.range])
    switch token.kind {
    case .string:
      if let text = tokens.string(at: value, in: bytes) { return try InstanceKey(text) }
    case .escapedString:
      if case .string(let text)? = try? JSONValue(parsing: Array(text)) {
        return try InstanceKey(text)
      }
    case .number:
      if let number = tokens.integer(at: value, in: bytes) { return try InstanceKey("\(number)") }
    case .null: throw .missing(field: field)
    case .object, .array, .true, .false: break
    }
    throw .unsupported(
      field: field, value: String(decoding: text.prefix(100), as: UTF8.self))
  }

  package mutating func key(ofEvent bytes: [UInt8]) throws(InstanceKeyError) -> InstanceKey {
    let result = bytes.withUnsafeBytes { bytes in
      Result { () throws(InstanceKeyError) in try key(ofEvent: bytes) }
    }
    return try result.get()
  }

  /// Returns the token index of the case's associated values, the inner object of `{"case":{…}}`.
  /// Returns `nil` if the event has another form.
  private func payloadIndex() -> Int? {
    let list = tokens.list
    guard list.count > 2, list[0].kind == .object, list[0].childCount == 1, list[2].kind == .object
    else { return nil }
    return 2
  }

  private func keyIndex(in payload: Int, _ bytes: UnsafeRawBufferPointer) -> Int? {
    if let value = memberIndex(fieldBytes, of: payload, bytes) { return value }
    guard tokens.list[payload].childCount == 1,
      let only = memberIndex(Array("_0".utf8), of: payload, bytes),
      tokens.list[only].kind == .object
    else { return nil }
    return memberIndex(fieldBytes, of: only, bytes)
  }

  /// Returns the token index of a member's value; `nil` if the object has no member of this name.
  private func memberIndex(_ name: [UInt8], of object: Int, _ bytes: UnsafeRawBufferPointer) -> Int?
  {
    var index = object + 1
    while index < tokens.list[object].nextIndex {
      let key = tokens.list[index]
      let range = Int(key.startOffset)..<Int(key.endOffset)
      if range.count == name.count, bytes[range].elementsEqual(name) { return index + 1 }
      index = Int(tokens.list[index + 1].nextIndex)
    }
    return nil
  }
}
