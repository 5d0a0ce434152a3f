#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Encodes events into one growing text, several times faster than Foundation's encoder.
///
/// It writes what events are made of. Where it does not succeed, for whatever reason, the caller asks
/// Foundation, which also words the error.
final class EventWriter {
  /// The value is something that is better left to Foundation.
  struct Unwritten: Error {}

  enum Bracket: UInt8 {
    case object = 0x7B
    case array = 0x5B

    /// Two after the opening one, in both cases.
    var closing: UInt8 { rawValue + 2 }
  }

  /// An object or array that is not closed yet.
  private struct Open {
    let id: Int
    let bracket: Bracket
    var isEmpty = true
  }

  // Exclusivity is not checked at run time for what each event touches: one thread owns the writer.
  @exclusivity(unchecked)
  private(set) var bytes: [UInt8] = []
  @exclusivity(unchecked)
  private var open: [Open] = []
  @exclusivity(unchecked)
  private var lastID = 0
  @exclusivity(unchecked)
  private var kept = KeptContainers()
  /// Set where a value cannot be written, by a call that cannot throw.
  @exclusivity(unchecked)
  private var isBroken = false

  /// Appends the JSON of a value to `target`, or leaves it as it was and throws.
  func write(_ value: some Encodable, into target: inout [UInt8]) throws {
    bytes.removeAll(keepingCapacity: true)
    open.removeAll(keepingCapacity: true)
    isBroken = false
    try append(encoding: value)
    close(downTo: 0)
    guard !isBroken, !bytes.isEmpty else { throw Unwritten() }
    target.append(contentsOf: bytes)
  }

  // MARK: Objects and arrays

  var depth: Int { open.count }

  /// Opens an object or array where a value belongs, or finds the one that was opened there before.
  /// - Returns: The number to go on with.
  func begin(_ bracket: Bracket, at depth: Int) -> Int {
    if open.count > depth {
      close(downTo: depth + 1)
      if open[depth].bracket != bracket { isBroken = true }
      return open[depth].id
    }
    lastID += 1
    open.append(Open(id: lastID, bracket: bracket))
    bytes.append(bracket.rawValue)
    return lastID
  }

  /// The members of an object where a value belongs.
  func members<Key: CodingKey>(
    at depth: Int, keyedBy type: Key.Type
  ) -> KeyedEncodingContainer<Key> {
    let id = begin(.object, at: depth)
    guard let (box, members) = kept.next(keyedBy: type) else {
      return newMembers(at: depth, id, keyedBy: type)
    }
    let place = unsafeDowncast(members, to: WrittenMembers.self)
    place.depth = depth
    place.id = id
    return unsafeBitCast(box, to: KeyedEncodingContainer<Key>.self)
  }

  @inline(never)
  private func newMembers<Key: CodingKey>(
    at depth: Int, _ id: Int, keyedBy type: Key.Type
  ) -> KeyedEncodingContainer<Key> {
    let members = WritableMembers<Key>(writer: self, depth: depth, id: id)
    let container = KeyedEncodingContainer(members)
    if MemoryLayout<KeyedEncodingContainer<Key>>.size == MemoryLayout<KeptContainers.Box>.size {
      kept.keep(unsafeBitCast(container, to: KeptContainers.Box.self), of: members, keyedBy: type)
    }
    return container
  }

  /// Parts with what it keeps, which leads back to it.
  func close() { kept.removeAll() }

  /// Goes on with an object or array: closes what was opened in it, and separates the next value.
  func next(in id: Int, at depth: Int) {
    guard depth < open.count, open[depth].id == id else {
      // It was closed already: somebody writes two at once.
      isBroken = true
      return
    }
    close(downTo: depth + 1)
    if !open[depth].isEmpty { bytes.append(UInt8(ascii: ",")) }
    open[depth].isEmpty = false
  }

  func next(_ key: String, in id: Int, at depth: Int) {
    next(in: id, at: depth)
    append(key)
    bytes.append(UInt8(ascii: ":"))
  }

  private func close(downTo depth: Int) {
    while open.count > depth { bytes.append(open.removeLast().bracket.closing) }
  }

  // MARK: Values

  func append(encoding value: some Encodable) throws {
    let type = type(of: value)
    // What Foundation writes in a way of its own.
    if type == Data.self || type == URL.self || type == Decimal.self { throw Unwritten() }
    let depth = open.count
    let start = bytes.count
    try value.encode(to: EventEncoder(writer: self, depth: depth))
    close(downTo: depth)
    // A value that writes nothing is an empty object to Foundation.
    if bytes.count == start { throw Unwritten() }
  }

  func append(_ value: Bool?) { JSONText.append(value, to: &bytes) }

  func append(integer value: some FixedWidthInteger) { JSONText.append(integer: value, to: &bytes) }

  func append(
    number value: some BinaryFloatingPoint & LosslessStringConvertible
  ) throws {
    guard JSONText.append(number: value, to: &bytes) else { throw Unwritten() }
  }

  func append(_ value: String) { JSONText.append(value, to: &bytes) }
}

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
