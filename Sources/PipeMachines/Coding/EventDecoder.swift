/// One value of an event, as its type's `init(from:)` sees it.
struct EventDecoder: Decoder {
  let reader: EventReader
  let index: Int

  // An error is not told from here, so no path is kept.
  var codingPath: [any CodingKey] { [] }
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    try reader.members(of: index, keyedBy: type)
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    try Elements(reader: reader, array: index)
  }

  func singleValueContainer() -> any SingleValueDecodingContainer { self }
}

extension EventDecoder: SingleValueDecodingContainer {
  func decodeNil() -> Bool { reader.isNull(at: index) }
  func decode(_ type: Bool.Type) throws -> Bool { try reader.bool(at: index) }
  func decode(_ type: String.Type) throws -> String { try reader.string(at: index) }
  func decode(_ type: Double.Type) throws -> Double { try reader.number(type, at: index) }
  func decode(_ type: Float.Type) throws -> Float { try reader.number(type, at: index) }
  func decode(_ type: Int.Type) throws -> Int { try reader.integer(type, at: index) }
  func decode(_ type: Int8.Type) throws -> Int8 { try reader.integer(type, at: index) }
  func decode(_ type: Int16.Type) throws -> Int16 { try reader.integer(type, at: index) }
  func decode(_ type: Int32.Type) throws -> Int32 { try reader.integer(type, at: index) }
  func decode(_ type: Int64.Type) throws -> Int64 { try reader.integer(type, at: index) }
  func decode(_ type: UInt.Type) throws -> UInt { try reader.integer(type, at: index) }
  func decode(_ type: UInt8.Type) throws -> UInt8 { try reader.integer(type, at: index) }
  func decode(_ type: UInt16.Type) throws -> UInt16 { try reader.integer(type, at: index) }
  func decode(_ type: UInt32.Type) throws -> UInt32 { try reader.integer(type, at: index) }
  func decode(_ type: UInt64.Type) throws -> UInt64 { try reader.integer(type, at: index) }
  func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
    try reader.value(type, at: index)
  }
}

extension EventDecoder {
  /// The elements of an array.
  struct Elements: UnkeyedDecodingContainer {
    private let reader: EventReader
    private let total: Int
    private var place: Int
    private(set) var currentIndex = 0

    init(reader: EventReader, array: Int) throws {
      let token = reader.tokens.list[array]
      guard token.kind == .array else { throw EventReader.Unread() }
      self.reader = reader
      total = Int(token.count)
      place = array + 1
    }

    var codingPath: [any CodingKey] { [] }
    var count: Int? { total }
    var isAtEnd: Bool { currentIndex == total }

    private mutating func next() throws -> EventDecoder {
      guard !isAtEnd else { throw EventReader.Unread() }
      defer {
        place = Int(reader.tokens.list[place].next)
        currentIndex += 1
      }
      return EventDecoder(reader: reader, index: place)
    }

    mutating func decodeNil() throws -> Bool {
      guard !isAtEnd, reader.isNull(at: place) else { return false }
      _ = try next()
      return true
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
      try next().decode(type)
    }

    mutating func nestedContainer<Nested: CodingKey>(
      keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> { try next().container(keyedBy: type) }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
      try next().unkeyedContainer()
    }

    mutating func superDecoder() throws -> any Decoder { try next() }
  }
}
