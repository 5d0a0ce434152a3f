/// The members of an object that is read, as far as the type of their keys does not matter.
class ReadMembers {
  let reader: EventReader
  // Exclusivity is not checked at run time for what each event touches: one thread owns the reader.
  @exclusivity(unchecked)
  final var object: Int

  init(reader: EventReader, object: Int) {
    self.reader = reader
    self.object = object
  }
}

/// The key of a single member with a name. As many as an enum of keys has cases.
// A list of objects: an array's functions would look up the type of its elements.
private final class KnownKey<Key: CodingKey> {
  let name: [UInt8]
  /// The key alone.
  let keys: [Key]
  let next: KnownKey?

  init(name: [UInt8], keys: [Key], next: KnownKey?) {
    self.name = name
    self.keys = keys
    self.next = next
  }
}

/// The same, as the type's `init(from:)` sees them.
final class EventMembers<Key: CodingKey>: ReadMembers, KeyedDecodingContainerProtocol {
  /// Keys that single members were found to have.
  @exclusivity(unchecked)
  private var known: KnownKey<Key>?

  // An error is not told from here, so no path is kept.
  var codingPath: [any CodingKey] { [] }

  var allKeys: [Key] {
    guard reader.tokens.list[object].count == 1 else { return otherKeys }
    let name = reader.text(at: object + 1)
    var known = known
    while let candidate = known {
      if candidate.name.count == name.count, candidate.name.elementsEqual(name) {
        return candidate.keys
      }
      known = candidate.next
    }
    return newKey(named: name)
  }

  @inline(never)
  private var otherKeys: [Key] {
    ((try? reader.keys(of: object)) ?? []).compactMap(Key.init(stringValue:))
  }

  /// The key of an object that has one member. A key that is an enum's case is always the same.
  @inline(never)
  private func newKey(named name: UnsafeRawBufferPointer) -> [Key] {
    let found = otherKeys
    if !found.isEmpty, TypeMetadata(Key.self).isEnum {
      known = KnownKey(name: Array(name), keys: found, next: known)
    }
    return found
  }

  func contains(_ key: Key) -> Bool { place(of: key) != nil }

  private func place(of key: Key) -> Int? { reader.member(key.stringValue, of: object) }

  private func value(_ key: Key) throws -> Int {
    guard let index = place(of: key) else { throw EventReader.Unread() }
    return index
  }

  /// Where the member is, unless there is none, or it is null.
  private func optional(_ key: Key) -> Int? {
    guard let index = place(of: key), !reader.isNull(at: index) else { return nil }
    return index
  }

  private func decoder(_ key: Key) throws -> EventDecoder {
    EventDecoder(reader: reader, index: try value(key))
  }

  func decodeNil(forKey key: Key) throws -> Bool { reader.isNull(at: try value(key)) }

  func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
    try reader.bool(at: value(key))
  }
  func decode(_ type: String.Type, forKey key: Key) throws -> String {
    try reader.string(at: value(key))
  }
  func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
    try reader.number(type, at: value(key))
  }
  func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
    try reader.number(type, at: value(key))
  }
  func decode(_ type: Int.Type, forKey key: Key) throws -> Int {
    try reader.integer(type, at: value(key))
  }
  func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
    try reader.value(type, at: value(key))
  }

  func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
    try optional(key).map { try reader.bool(at: $0) }
  }
  func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
    try optional(key).map { try reader.string(at: $0) }
  }
  func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
    try optional(key).map { try reader.number(type, at: $0) }
  }
  func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
    try optional(key).map { try reader.integer(type, at: $0) }
  }
  func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
    try optional(key).map { try reader.value(type, at: $0) }
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<Nested> {
    try reader.members(of: value(key), keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    try decoder(key).unkeyedContainer()
  }

  func superDecoder() throws -> any Decoder {
    guard let index = reader.member("super", of: object) else { throw EventReader.Unread() }
    return EventDecoder(reader: reader, index: index)
  }

  func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }
}
