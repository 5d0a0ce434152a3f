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
package final class EventCodec<Value: Codable & Sendable> {
  private let writer = EventWriter()
  private let reader = EventReader()
  // For what the two above leave, and for its errors.
  private lazy var encoder = JSONEncoder()
  private lazy var decoder = JSONDecoder()
  private let bareByTag: [[UInt8]?]
  private let bareByLabel: [(label: [UInt8], value: Value)]

  package init() {
    var byTag: [[UInt8]?] = []
    var byLabel: [(label: [UInt8], value: Value)] = []
    for (tag, description) in EnumCases<Value>.descriptions.enumerated() {
      guard description.fields.isEmpty, let value = EnumCases<Value>.bareValue(tag: tag) else {
        byTag.append(nil)
        continue
      }
      let label = JSONValue.string(description.name).bytes
      byTag.append(label)
      byLabel.append((label, value))
    }
    bareByTag = byTag
    bareByLabel = byLabel
  }

  /// Appends the value's JSON.
  package func encode(_ value: Value, into bytes: inout [UInt8]) throws {
    if let tag = EnumCases<Value>.tag(of: value), let label = bareByTag[tag] {
      bytes.append(contentsOf: label)
      return
    }
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
    if bytes.first == UInt8(ascii: "\"") {
      // A handful: cheaper to compare than to hash.
      for (label, value) in bareByLabel where label.count == bytes.count {
        if label.elementsEqual(bytes) { return value }
      }
    }
    if let value = try? reader.read(Value.self, from: bytes) { return value }
    return try decodeOtherwise(bytes)
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
