#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// An encoder that appends events to one growing text, several times faster than Foundation's
/// encoder.
///
/// The encoder supports only the values that events consist of. If it fails, for whatever reason,
/// the caller falls back to Foundation, which also describes the error.
final class EventWriter {
  /// An error for a value that Foundation must encode.
  struct UnsupportedValue: Error {}

  enum Bracket: UInt8 {
    case object = 0x7B
    case array = 0x5B

    /// The closing bracket. For both kinds of brackets, its ASCII code is two greater than the code
    /// of the opening bracket.
    var closing: UInt8 { rawValue + 2 }
  }

  /// An object or array that is not closed yet.
  private struct OpenContainer {
    let id: Int
    let bracket: Bracket
    var isEmpty = true
  }

  // These properties are exempt from the run-time checks for exclusive access, because every event
  // accesses them. They are safe without these checks, because one thread owns the writer.
  @exclusivity(unchecked)
  private var text = TextBuffer()
  @exclusivity(unchecked)
  private var openContainers: [OpenContainer] = []
  @exclusivity(unchecked)
  private var lastID = 0
  @exclusivity(unchecked)
  private var containerCache = ContainerCache()
  /// Whether a value could not be written. Functions that cannot throw set this flag.
  @exclusivity(unchecked)
  private var hasUnsupportedValue = false

  /// Appends the JSON of a value to `target`, or throws and leaves `target` unchanged.
  func write(_ value: some Encodable, into target: inout [UInt8]) throws {
    text.removeAll()
    openContainers.removeAll(keepingCapacity: true)
    hasUnsupportedValue = false
    try append(encoding: value)
    close(downTo: 0)
    guard !hasUnsupportedValue, text.count > 0 else { throw UnsupportedValue() }
    target.append(contentsOf: text.bytes)
  }

  // MARK: Writing objects and arrays

  var depth: Int { openContainers.count }

  /// Opens an object or array at a nesting depth. If an object or array is already open at this
  /// depth, continues the open one.
  /// - Returns: The ID of the object or array, for ``beginValue(in:at:)``.
  func begin(_ bracket: Bracket, at depth: Int) -> Int {
    if openContainers.count > depth {
      close(downTo: depth + 1)
      if openContainers[depth].bracket != bracket { hasUnsupportedValue = true }
      return openContainers[depth].id
    }
    lastID += 1
    openContainers.append(OpenContainer(id: lastID, bracket: bracket))
    text.append(bracket.rawValue)
    return lastID
  }

  /// Opens or continues an object at a nesting depth, and returns a container for the object's
  /// members.
  func members<Key: CodingKey>(
    at depth: Int, keyedBy type: Key.Type
  ) -> KeyedEncodingContainer<Key> {
    let id = begin(.object, at: depth)
    guard let (box, members) = containerCache.next(keyedBy: type) else {
      return newMembers(at: depth, id, keyedBy: type)
    }
    let writtenMembers = unsafeDowncast(members, to: WrittenMembers.self)
    writtenMembers.depth = depth
    writtenMembers.id = id
    return unsafeBitCast(box, to: KeyedEncodingContainer<Key>.self)
  }

  @inline(never)
  private func newMembers<Key: CodingKey>(
    at depth: Int, _ id: Int, keyedBy type: Key.Type
  ) -> KeyedEncodingContainer<Key> {
    let members = WritableMembers<Key>(writer: self, depth: depth, id: id)
    let container = KeyedEncodingContainer(members)
    if MemoryLayout<KeyedEncodingContainer<Key>>.size == MemoryLayout<ContainerCache.Box>.size {
      containerCache.keep(
        unsafeBitCast(container, to: ContainerCache.Box.self), of: members, keyedBy: type)
    }
    return container
  }

  /// Releases the cached containers. Otherwise, the writer and the containers would retain each
  /// other.
  func close() { containerCache.removeAll() }

  /// Continues an object or array with its next value. Closes all objects and arrays that are open
  /// inside it, and writes the comma, except before the first value.
  func beginValue(in id: Int, at depth: Int) {
    guard depth < openContainers.count, openContainers[depth].id == id else {
      // The object or array is already closed, because the caller writes into two containers
      // alternately.
      hasUnsupportedValue = true
      return
    }
    close(downTo: depth + 1)
    if openContainers[depth].isEmpty {
      openContainers[depth].isEmpty = false
    } else {
      text.append(UInt8(ascii: ","))
    }
  }

  func beginMember(_ key: String, in id: Int, at depth: Int) {
    beginValue(in: id, at: depth)
    text.append(string: key)
    text.append(UInt8(ascii: ":"))
  }

  private func close(downTo depth: Int) {
    while openContainers.count > depth { text.append(openContainers.removeLast().bracket.closing) }
  }

  // MARK: Writing values

  func append(encoding value: some Encodable) throws {
    let type = type(of: value)
    // Foundation encodes these types in its own way, not through their `Codable`.
    if type == Data.self || type == URL.self || type == Decimal.self { throw UnsupportedValue() }
    if type == JSONValue.self, let value = value as? JSONValue {
      _ = text.append(writing: {
        value.write(into: &$0)
        return true
      })
      return
    }
    let depth = openContainers.count
    let start = text.count
    try value.encode(to: EventEncoder(writer: self, depth: depth))
    close(downTo: depth)
    // If a value's `encode(to:)` writes nothing, Foundation must encode the value, as an empty
    // object.
    if text.count == start { throw UnsupportedValue() }
  }

  func append(_ value: Bool?) {
    switch value {
    case nil: text.append("null")
    case true?: text.append("true")
    case false?: text.append("false")
    }
  }

  func append(integer value: some FixedWidthInteger) { text.append(integer: value) }

  func append(
    number value: some BinaryFloatingPoint & LosslessStringConvertible
  ) throws {
    guard text.append(writing: { JSONText.append(number: value, to: &$0) }) else {
      throw UnsupportedValue()
    }
  }

  func append(_ value: String) { text.append(string: value) }
}

/// The members of an object being written, independent of the type of their keys.
class WrittenMembers {
  let writer: EventWriter
  // These properties are exempt from the run-time checks for exclusive access, because every event
  // accesses them. They are safe without these checks, because one thread owns the writer.
  @exclusivity(unchecked)
  final var depth: Int
  @exclusivity(unchecked)
  final var id: Int

  init(writer: EventWriter, depth: Int, id: Int) {
    self.writer = writer
    self.depth = depth
    self.id = id
  }
}

/// The members of an object being written, as passed to the `encode(to:)` of the object's type.
final class WritableMembers<Key: CodingKey>: WrittenMembers, KeyedEncodingContainerProtocol {
  // Foundation reports the errors, so this type does not track the coding path.
  var codingPath: [any CodingKey] { [] }

  private func beginMember(_ key: Key) { writer.beginMember(key.stringValue, in: id, at: depth) }

  private func member(_ key: Key) -> EventEncoder {
    beginMember(key)
    return EventEncoder(writer: writer, depth: depth + 1)
  }

  func encodeNil(forKey key: Key) {
    beginMember(key)
    writer.append(nil)
  }
  func encode(_ value: Bool, forKey key: Key) {
    beginMember(key)
    writer.append(value)
  }
  func encode(_ value: String, forKey key: Key) {
    beginMember(key)
    writer.append(value)
  }
  func encode(_ value: Double, forKey key: Key) throws {
    beginMember(key)
    try writer.append(number: value)
  }
  func encode(_ value: Float, forKey key: Key) throws {
    beginMember(key)
    try writer.append(number: value)
  }
  func encode(_ value: Int, forKey key: Key) {
    beginMember(key)
    writer.append(integer: value)
  }
  func encode(_ value: some Encodable, forKey key: Key) throws {
    beginMember(key)
    try writer.append(encoding: value)
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) -> KeyedEncodingContainer<Nested> {
    beginMember(key)
    return writer.members(at: depth + 1, keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    member(key).unkeyedContainer()
  }

  func superEncoder() -> any Encoder {
    writer.beginMember("super", in: id, at: depth)
    return EventEncoder(writer: writer, depth: depth + 1)
  }

  func superEncoder(forKey key: Key) -> any Encoder { member(key) }
}
