import PipeSupport

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// A codec that converts values of one enum to JSON and back.
///
/// A case without associated values is encoded as its bare label, `"closed"`, which needs no JSON
/// encoder. Any other case is encoded as Swift's synthesized `Codable` encodes it. The decoder
/// accepts both forms.
///
/// There are three ways to encode and decode a value, and all of them use the same JSON. A case of
/// a ``SynthesizedCodable`` is encoded in place, which means directly from the memory of the value.
/// Other values go through the type's `Codable`, with a writer and a reader made for events.
/// Foundation handles the values that the writer and the reader do not support.
package final class EventCodec<Value: Codable & Sendable> {
  private let writer = EventWriter()
  private let reader = EventReader()
  // Used for values that the writer and the reader do not support, and to describe errors in the
  // JSON.
  private lazy var encoder = JSONEncoder()
  private lazy var decoder = JSONDecoder()
  private let bareCases = BareCases<Value>()
  /// The codec for the cases that are encoded and decoded in place; `nil` if there are no such
  /// cases.
  private let inPlaceCodec: InPlaceEnumCodec?
  /// The memory in which values are decoded.
  // Allocated once, and not an optional: in code that is not specialized for the type, the runtime
  // would look up `Optional<Value>` in its tables at each use.
  private let storage = UnsafeMutablePointer<Value>.allocate(capacity: 1)

  /// Creates a codec.
  /// - Parameter isSynthesized: Whether the type is a ``SynthesizedCodable``.
  package init(isSynthesized: Bool = false) {
    inPlaceCodec = isSynthesized ? InPlaceEnumCodec(Value.self) : nil
  }

  deinit {
    writer.close()
    reader.close()
    storage.deallocate()
  }

  /// Appends the value's JSON.
  package func encode(_ value: Value, into bytes: inout [UInt8]) throws {
    let isWritten = withUnsafePointer(to: value) { value in
      if let label = bareCases.label(of: value) {
        bytes.append(contentsOf: label)
        return true
      }
      guard let inPlaceCodec, let caseIndex = inPlaceCodec.caseIndex(of: value),
        matchesCodable(caseIndex, in: inPlaceCodec)
      else {
        return false
      }
      return inPlaceCodec.append(value, of: caseIndex, to: &bytes)
    }
    if !isWritten { try encodeByCodable(value, into: &bytes) }
  }

  private func encodeByCodable(_ value: Value, into bytes: inout [UInt8]) throws {
    do { try writer.write(value, into: &bytes) } catch {
      bytes.append(contentsOf: try encoder.encode(value))
    }
  }

  /// Returns the value's JSON.
  package func encode(_ value: Value) throws -> [UInt8] {
    var bytes: [UInt8] = []
    try encode(value, into: &bytes)
    return bytes
  }

  /// Decodes a value. Throws ``UndecodableValue``, which names the cases that the type accepts.
  package func decode(_ bytes: UnsafeRawBufferPointer) throws -> Value {
    if bareCases.make(bytes, in: storage) || makeInPlace(bytes) { return storage.move() }
    return try decodeByCodable(bytes)
  }

  private func decodeByCodable(_ bytes: UnsafeRawBufferPointer) throws -> Value {
    do { return try reader.read(Value.self, from: bytes) } catch {
      return try decodeWithFoundation(bytes)
    }
  }

  /// Uses Foundation's decoder to decode text that the reader does not support. Throws
  /// ``UndecodableValue`` if Foundation's decoder fails, too.
  @export(interface)
  private func decodeWithFoundation(_ bytes: UnsafeRawBufferPointer) throws -> Value {
    var fault: (field: String, reason: String)?
    if let start = bytes.baseAddress {
      do {
        return try decoder.decode(
          Value.self,
          checking: Data(
            bytesNoCopy: UnsafeMutableRawPointer(mutating: start), count: bytes.count,
            deallocator: .none))
      } catch {
        fault = UndecodableValue.fault(error)
      }
    }
    throw UndecodableValue(
      text: String(decoding: bytes.prefix(200), as: UTF8.self), type: TypeName.of(Value.self),
      cases: EnumCases<Value>.descriptions, field: fault?.field, reason: fault?.reason)
  }

  package func decode(_ bytes: [UInt8]) throws -> Value {
    try bytes.withUnsafeBytes { try decode($0) }
  }
}

// The cases that are encoded and decoded in place.
extension EventCodec {
  /// Decodes a value in place into `storage`; returns `false` if the text must be decoded in
  /// another way.
  private func makeInPlace(_ text: UnsafeRawBufferPointer) -> Bool {
    guard let inPlaceCodec, let caseIndex = inPlaceCodec.caseIndex(of: text),
      matchesCodable(caseIndex, in: inPlaceCodec)
    else {
      return false
    }
    return inPlaceCodec.make(text, of: caseIndex, in: storage)
  }

  /// The hash function for the JSON of the type's values. If every case is encoded in place, equal
  /// values have the same JSON text in all processes, so the text itself is hashed.
  package var stateHash: StateHash {
    let layout = EnumLayout.of(Value.self)
    guard !layout.cases.isEmpty else { return .unordered }
    let isInPlace = layout.cases.indices.allSatisfy { tag in
      if layout.isBare(tag) { return true }
      guard let inPlaceCodec, let place = inPlaceCodec.caseIndex(ofTag: tag) else { return false }
      return matchesCodable(place, in: inPlaceCodec)
    }
    return isInPlace ? .fnv1a : .unordered
  }

  /// Returns whether a case can be encoded and decoded in place, with the same result as through
  /// `Codable`.
  /// - Parameter caseIndex: The index of the case in `codec`.
  private func matchesCodable(_ caseIndex: Int, in codec: InPlaceEnumCodec) -> Bool {
    switch codec.agreement(of: caseIndex) {
    case .same: true
    case .different: false
    case .unknown: compare(caseIndex, in: codec)
    }
  }

  /// Encodes and decodes sample values of a case, both in place and through the type's `Codable`.
  /// Returns whether the results are the same for all samples. The first sample omits all optional
  /// values.
  @export(interface)
  private func compare(_ caseIndex: Int, in codec: InPlaceEnumCodec) -> Bool {
    var numbers = SplitMix64(seed: 1)
    let matchesCodable = (0..<8).allSatisfy { index in
      codec.makeSample(of: caseIndex, &numbers, isMinimal: index == 0, in: storage)
      return agrees(on: storage.move(), caseIndex, in: codec)
    }
    codec.set(matchesCodable ? .same : .different, of: caseIndex)
    if !matchesCodable {
      Warnings.tell(
        "\(TypeName.of(Value.self)) conforms to SynthesizedCodable, but its Codable "
          + "implementation differs from the compiler's in case "
          + "'\(EnumCases<Value>.names[codec.tag(of: caseIndex)])'; the type's own implementation is "
          + "used for this case; remove SynthesizedCodable from the type")
    }
    return matchesCodable
  }

  private func agrees(on sample: Value, _ caseIndex: Int, in codec: InPlaceEnumCodec) -> Bool {
    func written(_ value: Value) -> [UInt8]? {
      var bytes: [UInt8] = []
      return withUnsafePointer(to: value) {
        codec.caseIndex(of: $0) == caseIndex && codec.append($0, of: caseIndex, to: &bytes)
          ? bytes : nil
      }
    }
    var bytes: [UInt8] = []
    guard let text = written(sample), (try? encodeByCodable(sample, into: &bytes)) != nil,
      text == bytes
    else { return false }
    return text.withUnsafeBytes { text in
      guard codec.make(text, of: caseIndex, in: storage) else { return false }
      let read = storage.move()
      guard let other = try? decodeByCodable(text) else { return false }
      return written(read) == bytes && written(other) == bytes
    }
  }
}

/// An error for JSON that is not a value of the expected type.
package struct UndecodableValue: Error, Sendable, CustomStringConvertible {
  package var text: String
  package var type: String
  package var cases: [CaseDescription]
  /// The field that is missing or wrong, such as `open.persons`; `nil` if the field is unknown.
  package var field: String?
  /// The reason why the value cannot be decoded, such as `field 'open.persons' is missing`; `nil`
  /// if the reason is unknown.
  package var reason: String?

  package var description: String {
    let known = cases.map(\.signature).joined(separator: ", ")
    return "'\(text)' is not a value of \(type)" + (reason.map { ": \($0)" } ?? "")
      + (known.isEmpty ? "" : "; its cases are \(known)")
  }

  /// Returns the field that a decoder's error reports as missing or wrong, with the reason; `nil`
  /// if the error names no field.
  fileprivate static func fault(_ error: any Error) -> (field: String, reason: String)? {
    func fault(_ path: [any CodingKey], _ problem: String) -> (field: String, reason: String)? {
      guard !path.isEmpty else { return nil }
      let field = path.map(\.stringValue).joined(separator: ".")
      return (field, "field '\(field)' \(problem)")
    }
    switch error as? DecodingError {
    case .keyNotFound(let key, let context):
      return fault(context.codingPath + [key], "is missing")
    case .valueNotFound(let type, let context):
      return fault(context.codingPath, "is null, not of type \(TypeName.of(type))")
    case .typeMismatch(let type, let context):
      return fault(context.codingPath, "is not of type \(TypeName.of(type))")
    case .dataCorrupted, nil: return nil
    @unknown default: return nil
    }
  }
}

extension CaseDescription {
  /// The case as a user would type it: `closing(persons: Int)`.
  package var signature: String {
    guard !fields.isEmpty else { return name }
    let list = fields.map { field in
      field.name.first == "_" ? field.type : "\(field.name): \(field.type)"
    }
    return "\(name)(\(list.joined(separator: ", ")))"
  }
}

/// A decoder of one value in an event, as passed to the `init(from:)` of the value's type.
struct EventDecoder: Decoder {
  let reader: EventReader
  let index: Int

  // Foundation reports the errors, so this type does not track the coding path.
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
  /// The elements of an array being read.
  struct Elements: UnkeyedDecodingContainer {
    private let reader: EventReader
    private let elementCount: Int
    private var tokenIndex: Int
    private(set) var currentIndex = 0

    init(reader: EventReader, array: Int) throws {
      let token = reader.tokens.list[array]
      guard token.kind == .array else { throw EventReader.UnsupportedInput() }
      self.reader = reader
      elementCount = Int(token.childCount)
      tokenIndex = array + 1
    }

    var codingPath: [any CodingKey] { [] }
    var count: Int? { elementCount }
    var isAtEnd: Bool { currentIndex == elementCount }

    private mutating func next() throws -> EventDecoder {
      guard !isAtEnd else { throw EventReader.UnsupportedInput() }
      defer {
        tokenIndex = Int(reader.tokens.list[tokenIndex].nextIndex)
        currentIndex += 1
      }
      return EventDecoder(reader: reader, index: tokenIndex)
    }

    mutating func decodeNil() throws -> Bool {
      guard !isAtEnd, reader.isNull(at: tokenIndex) else { return false }
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

/// An encoder of one value in an event, as passed to the `encode(to:)` of the value's type.
struct EventEncoder: Encoder {
  let writer: EventWriter
  let depth: Int

  // Foundation reports the errors, so this type does not track the coding path.
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
  /// The elements of an array being written.
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
      writer.beginValue(in: id, at: depth)
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

/// A cache of keyed containers, at most one for each type of keys.
///
/// `container(keyedBy:)` returns a box on the heap. The runtime looks up the type of the box in its
/// tables, which takes longer than all other work with the box. A reader or writer therefore keeps
/// its boxes. A box without other references is used again for the next object with the same type
/// of keys. While a box is referenced, a nested object gets its own box.
struct ContainerCache {
  /// A stand-in for the class of the boxes, which has no public name. This code only counts
  /// references to boxes, and never reads their contents.
  // With `AnyObject` instead of this class, the check for a unique reference would check a copy,
  // and always fail.
  final class Box {}

  private var typeKeys: [ObjectIdentifier] = []
  /// The boxes. A container consists of a reference to its box.
  private var boxes: [Box] = []
  /// The object that each box refers to, in the order of `boxes`.
  private var memberObjects: [AnyObject] = []
  /// The maximum number of cached boxes. It is small, because the key types are searched one by
  /// one.
  private static let maximumCount = 64

  /// Returns the box for a type of keys, and the object that the box refers to. Returns `nil` if
  /// there is no such box, or if the box is in use.
  mutating func next(keyedBy key: Any.Type) -> (box: Box, members: AnyObject)? {
    guard let index = typeKeys.firstIndex(of: ObjectIdentifier(key)),
      isKnownUniquelyReferenced(&boxes[index])
    else { return nil }
    return (boxes[index], memberObjects[index])
  }

  /// Keeps the box of a new container, unless the cache already has a box for the same type of
  /// keys.
  mutating func keep(_ box: Box, of members: AnyObject, keyedBy key: Any.Type) {
    let key = ObjectIdentifier(key)
    guard typeKeys.count < Self.maximumCount, !typeKeys.contains(key) else { return }
    typeKeys.append(key)
    boxes.append(box)
    self.memberObjects.append(members)
  }

  mutating func removeAll() { self = ContainerCache() }
}

/// A type whose `Codable` conformance the compiler has synthesized. Its source contains no
/// `encode(to:)`, no `init(from:)` and no `CodingKeys`.
///
/// Values of such a type are encoded to the same bytes as with `Codable`, but in a fraction of the
/// time. If all values of a case are numbers, Booleans and strings, or optionals of these, the case
/// is encoded and decoded directly in the memory of the value. Any other case goes through
/// `Codable`. Types without this conformance always go through `Codable`, because a program cannot
/// find out whether the compiler wrote a type's `Codable`.
///
/// ```swift
/// enum Event: MachineEvent, SynthesizedCodable {
///   case moved(x: Double, y: Double)
/// }
/// ```
///
/// - Note: At the first use of each case, sample values are encoded in memory and by `Codable`. If
///   the results differ, the case goes through `Codable`, with a warning. Differences that occur
///   only for rare values are not detected.
public protocol SynthesizedCodable: Codable {}
