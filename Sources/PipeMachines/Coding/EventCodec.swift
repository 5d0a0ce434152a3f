import PipeSupport

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Turns values of one enum into JSON and back.
///
/// A case without associated values travels as its bare label, `"closed"`, which needs no JSON
/// machinery; any other as Swift's synthesized `Codable` writes it. Both forms are read.
///
/// Three ways lead to the same bytes: in place, for a ``SynthesizedCodable``; by way of the type's `Codable`,
/// with a writer and a reader that are made for that; and Foundation's, for what those leave.
package final class EventCodec<Value: Codable & Sendable> {
  private let writer = EventWriter()
  private let reader = EventReader()
  // For what the two above leave, and for its errors.
  private lazy var encoder = JSONEncoder()
  private lazy var decoder = JSONDecoder()
  private let bare = BareCases<Value>()
  /// The cases that are written and read in place.
  private let plain: PlainCases?
  /// Where values are made.
  // Kept, and no optional: where this is not compiled for the type, each type that is made of it, an
  // optional among them, is looked up in the runtime's tables each time.
  private let room = UnsafeMutablePointer<Value>.allocate(capacity: 1)

  /// - Parameter isSynthesized: Whether the type is a ``SynthesizedCodable``.
  package init(isSynthesized: Bool = false) {
    plain = isSynthesized ? PlainCases(Value.self) : nil
  }

  deinit {
    writer.close()
    reader.close()
    room.deallocate()
  }

  /// Appends the value's JSON.
  package func encode(_ value: Value, into bytes: inout [UInt8]) throws {
    let isWritten = withUnsafePointer(to: value) { value in
      if let label = bare.label(of: value) {
        bytes.append(contentsOf: label)
        return true
      }
      guard let plain, let place = plain.place(of: value), isSame(place, in: plain) else {
        return false
      }
      return plain.append(value, of: place, to: &bytes)
    }
    if !isWritten { try encodeByCodable(value, into: &bytes) }
  }

  private func encodeByCodable(_ value: Value, into bytes: inout [UInt8]) throws {
    do { try writer.write(value, into: &bytes) } catch {
      bytes.append(contentsOf: try encoder.encode(value))
    }
  }

  /// The value's JSON.
  package func encode(_ value: Value) throws -> [UInt8] {
    var bytes: [UInt8] = []
    try encode(value, into: &bytes)
    return bytes
  }

  /// Reads a value. Throws ``UndecodableValue``, which says what the type takes.
  package func decode(_ bytes: UnsafeRawBufferPointer) throws -> Value {
    if bare.make(bytes, in: room) || makePlain(bytes) { return room.move() }
    return try decodeByCodable(bytes)
  }

  private func decodeByCodable(_ bytes: UnsafeRawBufferPointer) throws -> Value {
    do { return try reader.read(Value.self, from: bytes) } catch {
      return try decodeOtherwise(bytes)
    }
  }

  /// Reads what the reader leaves to Swift's own decoder, or tells what is wrong with it.
  @export(interface)
  private func decodeOtherwise(_ bytes: UnsafeRawBufferPointer) throws -> Value {
    if let start = bytes.baseAddress,
      let value = try? decoder.decode(
        Value.self,
        checking: Data(
          bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: bytes.count,
          deallocator: .none))
    {
      return value
    }
    throw UndecodableValue(
      text: String(decoding: bytes.prefix(200), as: UTF8.self), type: TypeName.of(Value.self),
      cases: EnumCases<Value>.descriptions)
  }

  package func decode(_ bytes: [UInt8]) throws -> Value {
    try bytes.withUnsafeBytes { try decode($0) }
  }
}

// The cases that are written and read in place.
extension EventCodec {
  /// Makes a value in `room`; returns `false` where the text is for others to read.
  private func makePlain(_ text: UnsafeRawBufferPointer) -> Bool {
    guard let plain, let place = plain.place(of: text), isSame(place, in: plain) else {
      return false
    }
    return plain.make(text, of: place, in: room)
  }

  /// Whether a case may be written and read in place.
  private func isSame(_ place: Int, in plain: PlainCases) -> Bool {
    switch plain.standing(of: place) {
    case .same: true
    case .different: false
    case .unknown: compare(place, in: plain)
    }
  }

  /// Holds a case against the type's `Codable`, with samples: in the first all is left out that may be.
  @export(interface)
  private func compare(_ place: Int, in plain: PlainCases) -> Bool {
    var numbers = SplitMix64(seed: 1)
    let isSame = (0..<8).allSatisfy { index in
      plain.makeSample(of: place, &numbers, isLeast: index == 0, in: room)
      return agrees(on: room.move(), place, in: plain)
    }
    plain.set(isSame ? .same : .different, of: place)
    if !isSame {
      Warnings.tell(
        "\(TypeName.of(Value.self)) says that it is a SynthesizedCodable, and its Codable differs from "
          + "the compiler's in case '\(EnumCases<Value>.names[plain.tag(of: place)])', which is left to it; take "
          + "SynthesizedCodable away from the type")
    }
    return isSame
  }

  private func agrees(on sample: Value, _ place: Int, in plain: PlainCases) -> Bool {
    func written(_ value: Value) -> [UInt8]? {
      var bytes: [UInt8] = []
      return withUnsafePointer(to: value) {
        plain.place(of: $0) == place && plain.append($0, of: place, to: &bytes) ? bytes : nil
      }
    }
    var bytes: [UInt8] = []
    guard let text = written(sample), (try? encodeByCodable(sample, into: &bytes)) != nil,
      text == bytes
    else { return false }
    return text.withUnsafeBytes { text in
      guard plain.make(text, of: place, in: room) else { return false }
      let read = room.move()
      guard let other = try? decodeByCodable(text) else { return false }
      return written(read) == bytes && written(other) == bytes
    }
  }
}

/// JSON that is not a value of the type it was meant for.
package struct UndecodableValue: Error, Sendable, CustomStringConvertible {
  package var text: String
  package var type: String
  package var cases: [CaseDescription]

  package var description: String {
    let known = cases.map(\.signature).joined(separator: ", ")
    return "'\(text)' is not a value of \(type)" + (known.isEmpty ? "" : "; it takes \(known)")
  }
}

extension CaseDescription {
  /// The case as a person would type it: `closing(persons: Int)`.
  package var signature: String {
    guard !fields.isEmpty else { return name }
    let list = fields.map { field in
      field.name.first == "_" ? field.type : "\(field.name): \(field.type)"
    }
    return "\(name)(\(list.joined(separator: ", ")))"
  }
}

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

/// Keyed containers to give out once more, by the type of their keys.
///
/// What `container(keyedBy:)` returns is a box on the heap, of a type that the runtime looks up in its
/// tables: that takes longer than all that is done with it. So a reader or writer keeps its boxes. One
/// that nobody else holds any more stands for the next object with such keys; as long as somebody does,
/// an object in it has a box of its own.
struct KeptContainers {
  /// Stands for the class of the boxes, which is not known by name: they are counted, and not looked into.
  // Not `AnyObject`: whether an object of that type is held once is asked of a copy, so that it never is.
  final class Box {}

  private var keys: [ObjectIdentifier] = []
  /// What the containers consist of: a reference to a box.
  private var boxes: [Box] = []
  /// What the boxes lead to.
  private var members: [AnyObject] = []
  /// Types of keys, which are searched one by one.
  private static let most = 64

  /// The box for keys of a type that nobody holds, and what it leads to.
  mutating func next(keyedBy key: Any.Type) -> (box: Box, members: AnyObject)? {
    guard let index = keys.firstIndex(of: ObjectIdentifier(key)),
      isKnownUniquelyReferenced(&boxes[index])
    else { return nil }
    return (boxes[index], members[index])
  }

  /// Keeps the box of a container that was made, unless there is one for such keys.
  mutating func keep(_ box: Box, of members: AnyObject, keyedBy key: Any.Type) {
    let key = ObjectIdentifier(key)
    guard keys.count < Self.most, !keys.contains(key) else { return }
    keys.append(key)
    boxes.append(box)
    self.members.append(members)
  }

  mutating func removeAll() { self = KeptContainers() }
}

/// A type whose `Codable` is the one that the compiler writes: its author has written no `encode(to:)`, no
/// `init(from:)` and no `CodingKeys`.
///
/// Events and states that say so travel as any other does, in the same bytes, and cost a fraction of the
/// time: a case whose values are numbers, truth values and texts, or optionals of these, is written and
/// read in place. What has other values goes by way of `Codable`, as does every type that does not say
/// so: nothing in a program tells whose the conformance is.
///
/// ```swift
/// enum Event: MachineEvent, SynthesizedCodable {
///   case moved(x: Double, y: Double)
/// }
/// ```
///
/// - Note: Each case is held against its `Codable` with samples when it is first used. One that differs
///   goes by way of `Codable`, with a warning; a conformance that treats only rare values otherwise is not
///   found out.
public protocol SynthesizedCodable: Codable {}
