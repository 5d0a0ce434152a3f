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
  private let bare = BareCases(Value.self)
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
