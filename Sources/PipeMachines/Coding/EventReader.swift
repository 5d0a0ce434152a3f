#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// A decoder that reads events in place, several times faster than Foundation's decoder.
///
/// The decoder supports only the JSON that events consist of. If it fails, for whatever reason, the
/// caller falls back to Foundation, which also describes the error.
final class EventReader {
  /// An error for a value that is not of the requested type, or that Foundation must decode.
  struct UnsupportedInput: Error {}

  // These properties are exempt from the run-time checks for exclusive access, because every event
  // accesses them. They are safe without these checks, because one thread owns the reader.
  @exclusivity(unchecked)
  private(set) var tokens = JSONTokens()
  @exclusivity(unchecked)
  private(set) var bytes = UnsafeRawBufferPointer(start: nil, count: 0)
  @exclusivity(unchecked)
  private var containerCache = ContainerCache()

  /// The maximum number of members of an object that are searched one by one. Larger objects, such
  /// as dictionaries, have an index.
  static let maxSearchedMemberCount = 64

  func read<Value: Decodable>(
    _ type: Value.Type, from bytes: UnsafeRawBufferPointer
  ) throws -> Value {
    guard tokens.read(bytes) else { throw UnsupportedInput() }
    self.bytes = bytes
    defer { self.bytes = UnsafeRawBufferPointer(start: nil, count: 0) }
    return try value(type, at: 0)
  }

  // MARK: Reading values

  func value<Value: Decodable>(_ type: Value.Type, at index: Int) throws -> Value {
    // Foundation decodes these types in its own way, not through their `Codable`.
    if type == Data.self || type == URL.self || type == Decimal.self { throw UnsupportedInput() }
    if type == JSONValue.self, let value = tokens.value(at: index, in: bytes) as? Value {
      return value
    }
    return try Value(from: EventDecoder(reader: self, index: index))
  }

  func isNull(at index: Int) -> Bool { tokens.list[index].kind == .null }

  func bool(at index: Int) throws -> Bool {
    switch tokens.list[index].kind {
    case .true: return true
    case .false: return false
    default: throw UnsupportedInput()
    }
  }

  func integer<Value: FixedWidthInteger>(_ type: Value.Type, at index: Int) throws -> Value {
    guard let number = tokens.integer(at: index, in: bytes), let value = Value(exactly: number)
    else {
      throw UnsupportedInput()
    }
    return value
  }

  func number<Value: BinaryFloatingPoint & LosslessStringConvertible>(
    _ type: Value.Type, at index: Int
  ) throws -> Value {
    let token = tokens.list[index]
    guard token.kind == .number else { throw UnsupportedInput() }
    let text = bytes[Int(token.startOffset)..<Int(token.endOffset)]
    guard let value = Value(String(decoding: text, as: UTF8.self)), value.isFinite else {
      throw UnsupportedInput()
    }
    return value
  }

  func string(at index: Int) throws -> String {
    // Strings with escapes are rare. Foundation decodes them.
    guard let text = tokens.string(at: index, in: bytes) else { throw UnsupportedInput() }
    return text
  }

  // MARK: Reading members of objects

  /// Returns the members of an object. Throws if the token is not an object, or if this reader does
  /// not support the object.
  func members<Key: CodingKey>(
    of index: Int, keyedBy type: Key.Type
  ) throws -> KeyedDecodingContainer<Key> {
    let object = tokens.list[index]
    guard object.kind == .object, !object.hasEscapedKey else { throw UnsupportedInput() }
    guard let (box, members) = containerCache.next(keyedBy: type) else {
      return newMembers(of: index, keyedBy: type)
    }
    let readMembers = unsafeDowncast(members, to: ReadMembers.self)
    readMembers.objectIndex = index
    // Discards the member index of the object that was read before. Only large objects have a
    // member index.
    if object.childCount > Self.maxSearchedMemberCount { readMembers.memberIndex = nil }
    return unsafeBitCast(box, to: KeyedDecodingContainer<Key>.self)
  }

  @inline(never)
  private func newMembers<Key: CodingKey>(
    of index: Int, keyedBy type: Key.Type
  ) -> KeyedDecodingContainer<Key> {
    let members = EventMembers<Key>(reader: self, object: index)
    let container = KeyedDecodingContainer(members)
    if MemoryLayout<KeyedDecodingContainer<Key>>.size == MemoryLayout<ContainerCache.Box>.size {
      containerCache.keep(
        unsafeBitCast(container, to: ContainerCache.Box.self), of: members, keyedBy: type)
    }
    return container
  }

  /// Releases the cached containers. Otherwise, the reader and the containers would retain each
  /// other.
  func close() { containerCache.removeAll() }

  /// Returns the text of a string, without its quotes, or of a number, as written in the JSON.
  func text(at index: Int) -> UnsafeRawBufferPointer {
    let token = tokens.list[index]
    return UnsafeRawBufferPointer(rebasing: bytes[Int(token.startOffset)..<Int(token.endOffset)])
  }

  /// Returns the index of the member's value; `nil` if the object has no member with this key.
  func member(_ key: String, of object: Int) -> Int? {
    var key = key
    return key.withUTF8 { key in
      var index = object + 1
      let end = Int(tokens.list[object].nextIndex)
      while index < end {
        let name = text(at: index)
        if name.count == key.count, name.elementsEqual(key) { return index + 1 }
        index = Int(tokens.list[index + 1].nextIndex)
      }
      return nil
    }
  }

  /// Returns the indices of an object's values by key. If a key occurs twice, its first value is
  /// used.
  @inline(never)
  func memberIndex(of object: Int) -> [String: Int] {
    var result: [String: Int] = [:]
    result.reserveCapacity(Int(tokens.list[object].childCount))
    var index = object + 1
    let end = Int(tokens.list[object].nextIndex)
    while index < end {
      if let key = try? string(at: index), result[key] == nil { result[key] = index + 1 }
      index = Int(tokens.list[index + 1].nextIndex)
    }
    return result
  }

  /// Returns the keys of an object.
  func keys(of object: Int) throws -> [String] {
    var keys: [String] = []
    var index = object + 1
    let end = Int(tokens.list[object].nextIndex)
    while index < end {
      keys.append(try string(at: index))
      index = Int(tokens.list[index + 1].nextIndex)
    }
    return keys
  }
}

/// The members of an object being read, independent of the type of their keys.
class ReadMembers {
  let reader: EventReader
  // These properties are exempt from the run-time checks for exclusive access, because every event
  // accesses them. They are safe without these checks, because one thread owns the reader.
  @exclusivity(unchecked)
  final var objectIndex: Int
  /// The indices of the values of a large object, by key; `nil` until a member of the object is
  /// read.
  @exclusivity(unchecked)
  final var memberIndex: [String: Int]?

  init(reader: EventReader, object: Int) {
    self.reader = reader
    self.objectIndex = object
  }

  /// Returns the index of the member's value; `nil` if the object has no member with this key.
  final func member(_ key: String) -> Int? {
    guard reader.tokens.list[objectIndex].childCount > EventReader.maxSearchedMemberCount else {
      return reader.member(key, of: objectIndex)
    }
    if let memberIndex { return memberIndex[key] }
    let index = reader.memberIndex(of: objectIndex)
    memberIndex = index
    return index[key]
  }
}

/// A cached key for objects with one member, with the name of that member. Keys are cached only if
/// the key type is an enum, which limits the number of cached keys.
// A linked list of these objects, not an array: the methods of an array would look up the type of
// its elements.
private final class CachedKey<Key: CodingKey> {
  let name: [UInt8]
  /// An array whose only element is the key.
  let keys: [Key]
  let nextKey: CachedKey?

  init(name: [UInt8], keys: [Key], next: CachedKey?) {
    self.name = name
    self.keys = keys
    self.nextKey = next
  }
}

/// The members of an object being read, as passed to the `init(from:)` of the object's type.
final class EventMembers<Key: CodingKey>: ReadMembers, KeyedDecodingContainerProtocol {
  /// The head of the linked list of cached keys; `nil` if no key is cached.
  @exclusivity(unchecked)
  private var cachedKeys: CachedKey<Key>?

  // Foundation reports the errors, so this type does not track the coding path.
  var codingPath: [any CodingKey] { [] }

  var allKeys: [Key] {
    guard reader.tokens.list[objectIndex].childCount == 1 else { return otherKeys }
    let name = reader.text(at: objectIndex + 1)
    var cachedKeys = cachedKeys
    while let candidate = cachedKeys {
      if candidate.name.count == name.count, candidate.name.elementsEqual(name) {
        return candidate.keys
      }
      cachedKeys = candidate.nextKey
    }
    return newKey(named: name)
  }

  @inline(never)
  private var otherKeys: [Key] {
    ((try? reader.keys(of: objectIndex)) ?? []).compactMap(Key.init(stringValue:))
  }

  /// Makes the key of an object whose only member has this name. Caches the key if the key type is
  /// an enum, because an enum makes the same key from a name every time.
  @inline(never)
  private func newKey(named name: UnsafeRawBufferPointer) -> [Key] {
    let found = otherKeys
    if !found.isEmpty, TypeMetadata(Key.self).isEnum {
      cachedKeys = CachedKey(name: Array(name), keys: found, next: cachedKeys)
    }
    return found
  }

  func contains(_ key: Key) -> Bool { valueIndex(of: key) != nil }

  /// Returns the index of the member's value; `nil` if the member is missing.
  private func valueIndex(of key: Key) -> Int? { member(key.stringValue) }

  /// Returns the index of the member's value. Throws if the member is missing.
  private func requiredValueIndex(_ key: Key) throws -> Int {
    guard let index = valueIndex(of: key) else { throw EventReader.UnsupportedInput() }
    return index
  }

  /// Returns the index of the member's value; `nil` if the member is missing or null.
  private func nonNullValueIndex(of key: Key) -> Int? {
    guard let index = valueIndex(of: key), !reader.isNull(at: index) else { return nil }
    return index
  }

  private func decoder(_ key: Key) throws -> EventDecoder {
    EventDecoder(reader: reader, index: try requiredValueIndex(key))
  }

  func decodeNil(forKey key: Key) throws -> Bool { reader.isNull(at: try requiredValueIndex(key)) }

  func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool {
    try reader.bool(at: requiredValueIndex(key))
  }
  func decode(_ type: String.Type, forKey key: Key) throws -> String {
    try reader.string(at: requiredValueIndex(key))
  }
  func decode(_ type: Double.Type, forKey key: Key) throws -> Double {
    try reader.number(type, at: requiredValueIndex(key))
  }
  func decode(_ type: Float.Type, forKey key: Key) throws -> Float {
    try reader.number(type, at: requiredValueIndex(key))
  }
  func decode(_ type: Int.Type, forKey key: Key) throws -> Int {
    try reader.integer(type, at: requiredValueIndex(key))
  }
  func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
    try reader.value(type, at: requiredValueIndex(key))
  }

  func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
    try nonNullValueIndex(of: key).map { try reader.bool(at: $0) }
  }
  func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
    try nonNullValueIndex(of: key).map { try reader.string(at: $0) }
  }
  func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
    try nonNullValueIndex(of: key).map { try reader.number(type, at: $0) }
  }
  func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
    try nonNullValueIndex(of: key).map { try reader.integer(type, at: $0) }
  }
  func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
    try nonNullValueIndex(of: key).map { try reader.value(type, at: $0) }
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) throws -> KeyedDecodingContainer<Nested> {
    try reader.members(of: requiredValueIndex(key), keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
    try decoder(key).unkeyedContainer()
  }

  func superDecoder() throws -> any Decoder {
    guard let index = member("super") else {
      throw EventReader.UnsupportedInput()
    }
    return EventDecoder(reader: reader, index: index)
  }

  func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }
}
