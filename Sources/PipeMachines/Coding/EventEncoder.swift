/// Where one value of an event goes, as its type's `encode(to:)` sees it.
struct EventEncoder: Encoder {
  let writer: EventWriter
  let depth: Int

  // An error is not told from here, so no path is kept.
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    KeyedEncodingContainer(
      Members(writer: writer, depth: depth, id: writer.begin(.object, at: depth)))
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
  /// The members of an object.
  struct Members<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let writer: EventWriter
    let depth: Int
    let id: Int

    var codingPath: [any CodingKey] { [] }

    private func next(_ key: Key) { writer.next(key.stringValue, in: id, at: depth) }

    private func member(_ key: Key) -> EventEncoder {
      next(key)
      return EventEncoder(writer: writer, depth: depth + 1)
    }

    func encodeNil(forKey key: Key) { member(key).encodeNil() }
    func encode(_ value: Bool, forKey key: Key) { member(key).encode(value) }
    func encode(_ value: String, forKey key: Key) { member(key).encode(value) }
    func encode(_ value: Double, forKey key: Key) throws { try member(key).encode(value) }
    func encode(_ value: Float, forKey key: Key) throws { try member(key).encode(value) }
    func encode(_ value: Int, forKey key: Key) { member(key).encode(value) }
    func encode(_ value: some Encodable, forKey key: Key) throws { try member(key).encode(value) }

    func nestedContainer<Nested: CodingKey>(
      keyedBy type: Nested.Type, forKey key: Key
    ) -> KeyedEncodingContainer<Nested> { member(key).container(keyedBy: type) }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
      member(key).unkeyedContainer()
    }

    func superEncoder() -> any Encoder {
      writer.next("super", in: id, at: depth)
      return EventEncoder(writer: writer, depth: depth + 1)
    }

    func superEncoder(forKey key: Key) -> any Encoder { member(key) }
  }

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
