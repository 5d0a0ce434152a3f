#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// A decoder that reads events in place, several times faster than Foundation's decoder.
///
/// It supports only the JSON that events consist of. If it fails, for whatever reason, the caller
/// falls back to Foundation, which also describes the error.
final class EventReader {
  /// An error for a value that is not of the requested type, or that Foundation must decode.
  struct UnsupportedInput: Error {}

  // Exclusivity is not checked at run time for storage that each event uses: one thread owns the reader.
  @exclusivity(unchecked)
  private(set) var tokens = JSONTokens()
  @exclusivity(unchecked)
  private(set) var bytes = UnsafeRawBufferPointer(start: nil, count: 0)
  @exclusivity(unchecked)
  private var kept = ContainerCache()

  /// The maximum number of members of an object that are searched one by one. Larger objects, such as
  /// dictionaries, have an index.
  static let maxSearchedMemberCount = 64

  func read<Value: Decodable>(
    _ type: Value.Type, from bytes: UnsafeRawBufferPointer
  ) throws -> Value {
    guard tokens.read(bytes) else { throw UnsupportedInput() }
    self.bytes = bytes
    defer { self.bytes = UnsafeRawBufferPointer(start: nil, count: 0) }
    return try value(type, at: 0)
  }

  // MARK: Values

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
    let text = bytes[Int(token.start)..<Int(token.end)]
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

  // MARK: Members

  /// Returns the members of an object. Throws if the token is not an object, or if this reader does
  /// not support the object.
  func members<Key: CodingKey>(
    of index: Int, keyedBy type: Key.Type
  ) throws -> KeyedDecodingContainer<Key> {
    let object = tokens.list[index]
    guard object.kind == .object, !object.hasEscapedKey else { throw UnsupportedInput() }
    guard let (box, members) = kept.next(keyedBy: type) else {
      return newMembers(of: index, keyedBy: type)
    }
    let readMembers = unsafeDowncast(members, to: ReadMembers.self)
    readMembers.object = index
    // Only large objects use the index.
    if object.count > Self.maxSearchedMemberCount { readMembers.memberIndex = nil }
    return unsafeBitCast(box, to: KeyedDecodingContainer<Key>.self)
  }

  @inline(never)
  private func newMembers<Key: CodingKey>(
    of index: Int, keyedBy type: Key.Type
  ) -> KeyedDecodingContainer<Key> {
    let members = EventMembers<Key>(reader: self, object: index)
    let container = KeyedDecodingContainer(members)
    if MemoryLayout<KeyedDecodingContainer<Key>>.size == MemoryLayout<ContainerCache.Box>.size {
      kept.keep(unsafeBitCast(container, to: ContainerCache.Box.self), of: members, keyedBy: type)
    }
    return container
  }

  /// Releases the kept containers, which refer back to the reader.
  func close() { kept.removeAll() }

  /// Returns the text of a string, without its quotes, or of a number, as written in the JSON.
  func text(at index: Int) -> UnsafeRawBufferPointer {
    let token = tokens.list[index]
    return UnsafeRawBufferPointer(rebasing: bytes[Int(token.start)..<Int(token.end)])
  }

  /// Returns the index of the value of the member with this key, or `nil`.
  func member(_ key: String, of object: Int) -> Int? {
    var key = key
    return key.withUTF8 { key in
      var index = object + 1
      let end = Int(tokens.list[object].next)
      while index < end {
        let name = text(at: index)
        if name.count == key.count, name.elementsEqual(key) { return index + 1 }
        index = Int(tokens.list[index + 1].next)
      }
      return nil
    }
  }

  /// Returns the indices of an object's values by key. If a key occurs twice, its first value counts.
  @inline(never)
  func memberIndex(of object: Int) -> [String: Int] {
    var result: [String: Int] = [:]
    result.reserveCapacity(Int(tokens.list[object].count))
    var index = object + 1
    let end = Int(tokens.list[object].next)
    while index < end {
      if let key = try? string(at: index), result[key] == nil { result[key] = index + 1 }
      index = Int(tokens.list[index + 1].next)
    }
    return result
  }

  /// Returns the keys of an object.
  func keys(of object: Int) throws -> [String] {
    var keys: [String] = []
    var index = object + 1
    let end = Int(tokens.list[object].next)
    while index < end {
      keys.append(try string(at: index))
      index = Int(tokens.list[index + 1].next)
    }
    return keys
  }
}

/// The members of an object being read, independent of the type of their keys.
class ReadMembers {
  let reader: EventReader
  // Exclusivity is not checked at run time for storage that each event uses: one thread owns the reader.
  @exclusivity(unchecked)
  final var object: Int
  /// The indices of the values by key, for a large object whose members are read.
  @exclusivity(unchecked)
  final var memberIndex: [String: Int]?

  init(reader: EventReader, object: Int) {
    self.reader = reader
    self.object = object
  }

  /// Returns the index of the value of the member with this key, or `nil`.
  final func member(_ key: String) -> Int? {
    guard reader.tokens.list[object].count > EventReader.maxSearchedMemberCount else {
      return reader.member(key, of: object)
    }
    if let memberIndex { return memberIndex[key] }
    let index = reader.memberIndex(of: object)
    memberIndex = index
    return index[key]
  }
}

/// A cached key of an object's only member, with the member's name. If the key type is an enum,
/// there is at most one for each case.
// A linked list of these objects, not an array: the methods of an array would look up the type of
// its elements.
private final class CachedKey<Key: CodingKey> {
  let name: [UInt8]
  /// An array of only this key.
  let keys: [Key]
  let next: CachedKey?

  init(name: [UInt8], keys: [Key], next: CachedKey?) {
    self.name = name
    self.keys = keys
    self.next = next
  }
}

/// The members of an object being read, as passed to the type's `init(from:)`.
final class EventMembers<Key: CodingKey>: ReadMembers, KeyedDecodingContainerProtocol {
  /// The cached keys of objects with one member.
  @exclusivity(unchecked)
  private var known: CachedKey<Key>?

  // Foundation reports the errors, so no path is kept here.
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

  /// Returns the key of an object with one member. Caches the key if the key type is an enum,
  /// because an enum always has the same key for a name.
  @inline(never)
  private func newKey(named name: UnsafeRawBufferPointer) -> [Key] {
    let found = otherKeys
    if !found.isEmpty, TypeMetadata(Key.self).isEnum {
      known = CachedKey(name: Array(name), keys: found, next: known)
    }
    return found
  }

  func contains(_ key: Key) -> Bool { place(of: key) != nil }

  private func place(of key: Key) -> Int? { member(key.stringValue) }

  private func value(_ key: Key) throws -> Int {
    guard let index = place(of: key) else { throw EventReader.UnsupportedInput() }
    return index
  }

  /// Returns the index of the member's value; `nil` if the member is missing or null.
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
    guard let index = member("super") else {
      throw EventReader.UnsupportedInput()
    }
    return EventDecoder(reader: reader, index: index)
  }

  func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }
}
