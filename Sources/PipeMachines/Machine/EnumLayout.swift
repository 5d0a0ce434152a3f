import PipeSupport

/// What is known of an enum type, worked out once per type: names, payload types, indirection.
@usableFromInline
package final class EnumLayout: @unchecked Sendable {  // Immutable after init.
  /// The cases in tag order; none for a type that is not an enum.
  package let cases: [CaseDescription]
  /// The payload types of each case, element by element.
  let payloads: [[Any.Type]]
  /// Where the elements of each case's payload lie in it. Unit: bytes.
  let offsets: [[Int]]
  /// Which cases have no payload at all.
  let isBare: [Bool]
  /// Where each case's types begin in `types`; one more entry for the end.
  @usableFromInline let starts: UnsafePointer<Int>
  /// The payload types of all cases, one after the other, as addresses.
  @usableFromInline let types: UnsafePointer<UnsafeRawPointer>
  /// For each case: the offset of its payload in a heap box, or 0 where it lies in the value.
  @usableFromInline let boxOffsets: UnsafePointer<Int>

  /// Reads a type, whether or not that is known to come out right; see ``of(_:)``.
  init(_ metadata: TypeMetadata) {
    let records = metadata.isEnum ? FieldDescriptor(of: metadata)?.records ?? [] : []
    let elements = records.map { record in
      record.payload.map { TypeMetadata($0).elements } ?? []
    }
    payloads = elements.map { $0.map(\.type) }
    offsets = elements.map { $0.map(\.offset) }
    isBare = records.map { !$0.hasPayload }
    cases = zip(records, elements).map { record, elements in
      CaseDescription(
        name: record.name,
        fields: elements.enumerated().map { index, element in
          .init(
            name: element.label.isEmpty ? "_\(index)" : element.label,
            type: TypeName.own(element.type))
        })
    }
    let flat = payloads.flatMap { $0.map { TypeMetadata($0).pointer } }
    let starts = payloads.reduce(into: [0]) { $0.append($0.last! + $1.count) }
    let boxes = records.map { record -> Int in
      guard record.isIndirect, let payload = record.payload else { return 0 }
      let mask = TypeMetadata(payload).alignmentMask
      return (16 + mask) & ~mask
    }
    self.starts = Self.table(starts)
    types = Self.table(flat)
    boxOffsets = Self.table(boxes)
  }

  deinit {
    starts.deallocate()
    types.deallocate()
    boxOffsets.deallocate()
  }

  private static func table<Element>(_ elements: [Element]) -> UnsafePointer<Element> {
    let table = UnsafeMutablePointer<Element>.allocate(capacity: max(1, elements.count))
    table.initialize(from: elements, count: elements.count)
    return UnsafePointer(table)
  }

  private static let known: Locked<[ObjectIdentifier: EnumLayout]> = {
    MetadataCanary.check()
    return Locked([:])
  }()

  /// The layout of `type`.
  @usableFromInline
  package static func of(_ type: Any.Type) -> EnumLayout {
    let key = ObjectIdentifier(type)
    if let layout = known.withLock({ $0[key] }) { return layout }
    let layout = EnumLayout(TypeMetadata(type))
    return known.withLock { layouts in
      if let earlier = layouts[key] { return earlier }
      layouts[key] = layout
      return layout
    }
  }

  /// The tags of the cases whose payload has exactly these types.
  func tags(withPayload types: [Any.Type]) -> [Int] {
    payloads.indices.filter { !types.isEmpty && matches(tag: $0, types) }
  }

  @usableFromInline
  func matches(tag: Int, _ types: [Any.Type]) -> Bool {
    let payload = payloads[tag]
    if payload.count == types.count {
      return zip(payload, types).allSatisfy { $0 == $1 }
    }
    // One value that is a tuple looks like several values.
    guard types.count == 1 else { return false }
    let elements = TypeMetadata(types[0]).elements.map(\.type)
    return payload.count == elements.count && zip(payload, elements).allSatisfy { $0 == $1 }
  }

  /// Says whether the payload of case `tag` is this tuple, or this function.
  @usableFromInline
  func hasOnePayload(_ tag: Int, _ type: Any.Type) -> Bool {
    guard matches(tag: tag, [type]) else { return false }
    // A function in a case is called otherwise than one of a type that is not known at compile time.
    precondition(
      !payloads[tag].contains { TypeMetadata($0).kind == TypeMetadata.Kind.function },
      """
      The case '\(cases[tag].name)' carries a function, which cannot be taken out of it by its \
      constructor: let it carry a struct that has the function.
      """)
    return true
  }

  /// Says whether the payload of case `tag` has exactly these types, in this order.
  @inlinable
  func hasPayload<each Payload>(_ tag: Int, _ payload: repeat (each Payload).Type) -> Bool {
    var index = starts[tag]
    let end = starts[tag + 1]
    if index == end { return false }
    for type in repeat each payload {
      let metadata = TypeMetadata(type)
      let kind = metadata.kind
      if kind == TypeMetadata.Kind.tuple || kind == TypeMetadata.Kind.function {
        return hasOnePayload(tag, type)
      }
      guard index < end, types[index] == metadata.pointer else { return false }
      index += 1
    }
    return index == end
  }
}
