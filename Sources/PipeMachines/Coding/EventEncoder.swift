/// Where one value of an event goes, as its type's `encode(to:)` sees it.
struct EventEncoder: Encoder {
  let writer: EventWriter
  let depth: Int

  // An error is not told from here, so no path is kept.
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    writer.members(at: depth, keyedBy: type)
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    Elements(writer: writer, depth: depth, id: writer.begin(.array, at: depth))
  }

  func singleValueContainer() -> any SingleValueEncodingContainer { self }
}

extension EventEncoder: SingleValueEncodingContainer {
  func encodeNil() { writer.append(nil) }
  func encode(_ value: Bool) { writer.append(value) }
  func encode(_ value: String) { writer.append(value) }
  func encode(_ value: Double) throws { try writer.append(number: value) }
  func encode(_ value: Float) throws { try writer.append(number: value) }
  func encode(_ value: Int) { writer.append(integer: value) }
  func encode(_ value: Int8) { writer.append(integer: value) }
  func encode(_ value: Int16) { writer.append(integer: value) }
  func encode(_ value: Int32) { writer.append(integer: value) }
  func encode(_ value: Int64) { writer.append(integer: value) }
  func encode(_ value: UInt) { writer.append(integer: value) }
  func encode(_ value: UInt8) { writer.append(integer: value) }
  func encode(_ value: UInt16) { writer.append(integer: value) }
  func encode(_ value: UInt32) { writer.append(integer: value) }
  func encode(_ value: UInt64) { writer.append(integer: value) }
  func encode(_ value: some Encodable) throws { try writer.append(encoding: value) }
}

extension EventEncoder {
  /// The elements of an array.
  struct Elements: UnkeyedEncodingContainer {
    let writer: EventWriter
    let depth: Int
    let id: Int
    private(set) var count = 0

    init(writer: EventWriter, depth: Int, id: Int) {
      self.writer = writer
      self.depth = depth
      self.id = id
    }

    var codingPath: [any CodingKey] { [] }

    private mutating func element() -> EventEncoder {
      writer.next(in: id, at: depth)
      count += 1
      return EventEncoder(writer: writer, depth: depth + 1)
    }

    mutating func encodeNil() { element().encodeNil() }
    mutating func encode(_ value: some Encodable) throws { try element().encode(value) }

    mutating func nestedContainer<Nested: CodingKey>(
      keyedBy type: Nested.Type
    ) -> KeyedEncodingContainer<Nested> { element().container(keyedBy: type) }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
      element().unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder { element() }
  }
}
