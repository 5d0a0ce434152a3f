/// The members of an object that is written, as far as the type of their keys does not matter.
class WrittenMembers {
  let writer: EventWriter
  // Exclusivity is not checked at run time for what each event touches: one thread owns the writer.
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

/// The same, as the type's `encode(to:)` sees them.
final class WritableMembers<Key: CodingKey>: WrittenMembers, KeyedEncodingContainerProtocol {
  // An error is not told from here, so no path is kept.
  var codingPath: [any CodingKey] { [] }

  private func next(_ key: Key) { writer.next(key.stringValue, in: id, at: depth) }

  private func member(_ key: Key) -> EventEncoder {
    next(key)
    return EventEncoder(writer: writer, depth: depth + 1)
  }

  func encodeNil(forKey key: Key) {
    next(key)
    writer.append(nil)
  }
  func encode(_ value: Bool, forKey key: Key) {
    next(key)
    writer.append(value)
  }
  func encode(_ value: String, forKey key: Key) {
    next(key)
    writer.append(value)
  }
  func encode(_ value: Double, forKey key: Key) throws {
    next(key)
    try writer.append(number: value)
  }
  func encode(_ value: Float, forKey key: Key) throws {
    next(key)
    try writer.append(number: value)
  }
  func encode(_ value: Int, forKey key: Key) {
    next(key)
    writer.append(integer: value)
  }
  func encode(_ value: some Encodable, forKey key: Key) throws {
    next(key)
    try writer.append(encoding: value)
  }

  func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) -> KeyedEncodingContainer<Nested> {
    next(key)
    return writer.members(at: depth + 1, keyedBy: type)
  }

  func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    member(key).unkeyedContainer()
  }

  func superEncoder() -> any Encoder {
    writer.next("super", in: id, at: depth)
    return EventEncoder(writer: writer, depth: depth + 1)
  }

  func superEncoder(forKey key: Key) -> any Encoder { member(key) }
}
