import PipeSupport

/// The cases of an enum type, read once per type: names, payload types, and where payloads are
/// stored.
///
/// If it is not known how the compiler lays out types, values are read by reflection: see
/// ``TypeReading``.
@usableFromInline
package final class EnumLayout: @unchecked Sendable {  // Immutable except for the locked cases.
  /// The cases in tag order, as the type lists them; `nil` if that list cannot be read.
  private let listedCases: [CaseDescription]?
  /// The types of each case's payload. A payload with several values has a type for each value.
  let payloadTypes: [[Any.Type]]
  /// The offsets of the values in each case's payload. Unit: bytes.
  let payloadOffsets: [[Int]]
  /// For each case in `listedCases`, whether the case has no payload.
  private let isListedBare: [Bool]
  /// For each case, the index of the case's first payload type in `flatPayloadTypes`. The last
  /// element is the total number of payload types.
  @usableFromInline let typeStartsByTag: UnsafePointer<Int>
  /// The addresses of the payload types of all cases, one case after the other.
  @usableFromInline let flatPayloadTypes: UnsafePointer<UnsafeRawPointer>
  /// For each case, the offset of the payload in a heap box, or 0 if the payload is stored in the
  /// value.
  @usableFromInline let boxOffsets: UnsafePointer<Int>
  /// The cases in `listedCases`, and the cases that have occurred in values so far.
  let observedCases: Locked<ObservedCases>

  /// Reads the layout of a type.
  /// - Parameter reading: How much of the compiler's layout of types is known.
  init(_ metadata: TypeMetadata, reading: TypeReading = .current) {
    let records =
      reading != .mirrorOnly && metadata.isStoredEnum
      ? FieldDescriptor(of: metadata)?.records ?? [] : []
    let elements = records.map { record in
      record.payload.map { TypeMetadata($0).elements } ?? []
    }
    payloadTypes = elements.map { $0.map(\.type) }
    payloadOffsets = elements.map { $0.map(\.offset) }
    isListedBare = records.map { !$0.hasPayload }
    let cases = zip(records, elements).map { record, elements in
      CaseDescription(
        name: record.name,
        fields: elements.enumerated().map { index, element in
          .init(
            name: element.label.isEmpty ? "_\(index)" : element.label,
            type: TypeName.unqualified(element.type))
        })
    }
    listedCases = reading == .mirrorOnly ? nil : cases
    observedCases = Locked(ObservedCases(names: cases.map(\.name)))
    let flat = payloadTypes.flatMap { $0.map { TypeMetadata($0).pointer } }
    let starts = payloadTypes.reduce(into: [0]) { $0.append($0.last! + $1.count) }
    let boxes = records.map { record -> Int in
      guard reading == .layout, record.isIndirect, let payload = record.payload else { return 0 }
      let mask = TypeMetadata(payload).alignmentMask
      return (16 + mask) & ~mask
    }
    self.typeStartsByTag = Self.allocateTable(starts)
    flatPayloadTypes = Self.allocateTable(flat)
    boxOffsets = Self.allocateTable(boxes)
  }

  deinit {
    typeStartsByTag.deallocate()
    flatPayloadTypes.deallocate()
    boxOffsets.deallocate()
  }

  private static func allocateTable<Element>(_ elements: [Element]) -> UnsafePointer<Element> {
    let table = UnsafeMutablePointer<Element>.allocate(capacity: max(1, elements.count))
    table.initialize(from: elements, count: elements.count)
    return UnsafePointer(table)
  }

  private static let cachedLayouts = Locked<[ObjectIdentifier: EnumLayout]>([:])

  /// Returns the layout of `type`.
  @usableFromInline
  package static func of(_ type: Any.Type) -> EnumLayout {
    let key = ObjectIdentifier(type)
    if let layout = cachedLayouts.withLock({ $0[key] }) { return layout }
    let layout = EnumLayout(TypeMetadata(type))
    return cachedLayouts.withLock { layouts in
      if let earlier = layouts[key] { return earlier }
      layouts[key] = layout
      return layout
    }
  }

  /// The cases in tag order; empty for a type that is not an enum.
  ///
  /// If the type's list of cases cannot be read, this property contains only the cases that
  /// occurred in values so far.
  package var cases: [CaseDescription] {
    listedCases ?? observedCases.withLock { $0.names.map { CaseDescription(name: $0) } }
  }

  /// Returns whether a case has no payload.
  func isBare(_ tag: Int) -> Bool {
    listedCases == nil
      ? observedCases.withLock { $0.bareValuesByTag[tag] != nil } : isListedBare[tag]
  }

  /// Returns the tags of the cases whose payload has exactly these types.
  func tags(withPayload types: [Any.Type]) -> [Int] {
    payloadTypes.indices.filter { !types.isEmpty && matches(tag: $0, types) }
  }

  @usableFromInline
  func matches(tag: Int, _ types: [Any.Type]) -> Bool {
    let payload = payloadTypes[tag]
    if payload.count == types.count {
      return zip(payload, types).allSatisfy { $0 == $1 }
    }
    // In the list of payload types, a single tuple value looks the same as several separate values.
    guard types.count == 1 else { return false }
    let elements = TypeMetadata(types[0]).elements.map(\.type)
    return payload.count == elements.count && zip(payload, elements).allSatisfy { $0 == $1 }
  }

  /// Returns whether the payload of case `tag` is a single value of this type, or the elements of
  /// this tuple type. Traps if the payload contains a function.
  @usableFromInline
  func hasOnePayload(_ tag: Int, _ type: Any.Type) -> Bool {
    guard matches(tag: tag, [type]) else { return false }
    // A function in a payload has a different calling convention from a function that is a generic
    // parameter.
    precondition(
      !payloadTypes[tag].contains { TypeMetadata($0).kind == TypeMetadata.Kind.function },
      """
      The payload of case '\(cases[tag].name)' is a function, which a pattern with the case's \
      constructor cannot match. Wrap the function in a struct.
      """)
    return true
  }

  /// Returns whether the payload of case `tag` has exactly these types, in this order.
  ///
  /// If the type's list of cases cannot be read, returns `true`: the payload itself is checked
  /// later.
  @inlinable
  func hasPayload<each Payload>(_ tag: Int, _ payload: repeat (each Payload).Type) -> Bool {
    if TypeReading.isReflective, isUnlisted { return true }
    var index = typeStartsByTag[tag]
    let end = typeStartsByTag[tag + 1]
    if index == end { return false }
    for type in repeat each payload {
      let metadata = TypeMetadata(type)
      let kind = metadata.kind
      if kind == TypeMetadata.Kind.tuple || kind == TypeMetadata.Kind.function {
        return hasOnePayload(tag, type)
      }
      guard index < end, flatPayloadTypes[index] == metadata.pointer else { return false }
      index += 1
    }
    return index == end
  }

  @usableFromInline var isUnlisted: Bool { listedCases == nil }

  /// Returns the offset of a case's payload in a heap box, or 0 if the payload is stored in the
  /// value.
  @inlinable
  func boxOffset(_ tag: Int) -> Int { TypeReading.isReflective ? 0 : boxOffsets[tag] }
}

/// The cases of an enum, as the compiler recorded them.
struct FieldDescriptor {
  struct Record {
    var name: String
    /// The type of the payload; `nil` for a case without a payload, or if the type's name cannot be
    /// resolved.
    var payload: Any.Type?
    var isIndirect: Bool
    var hasPayload: Bool
  }

  /// The compiler's records of the cases, in the order of their tags.
  let records: [Record]

  /// Reads the descriptor of an enum; `nil` if reflection metadata is disabled.
  init?(of metadata: TypeMetadata) {
    let nominal = metadata.pointer.load(fromByteOffset: 8, as: UnsafeRawPointer.self)
    guard let fields = Self.resolveRelativePointer(nominal + 16) else { return nil }
    let isGeneric = nominal.load(as: UInt32.self) & 0x80 != 0
    let arguments = isGeneric ? metadata.pointer + 16 : nil
    let size = Int(fields.load(fromByteOffset: 10, as: UInt16.self))
    let count = Int(fields.load(fromByteOffset: 12, as: UInt32.self))
    records = (0..<count).map { index in
      let record = fields + 16 + index * size
      let mangled = Self.resolveRelativePointer(record + 4)
      let name = Self.resolveRelativePointer(record + 8)
      return Record(
        name: name.map { String(cString: $0.assumingMemoryBound(to: CChar.self)) } ?? "",
        payload: mangled.flatMap {
          _getTypeByMangledNameInContext(
            $0.assumingMemoryBound(to: UInt8.self), Self.length(of: $0), genericContext: nominal,
            genericArguments: arguments)
        },
        isIndirect: record.load(as: UInt32.self) & 1 != 0,
        hasPayload: mangled != nil)
    }
  }

  /// Returns the kind of a type's descriptor. For an enum, also returns the size of each record and
  /// the number of records.
  static func shape(of metadata: TypeMetadata) -> String {
    let nominal = metadata.pointer.load(fromByteOffset: 8, as: UnsafeRawPointer.self)
    let kind = nominal.load(as: UInt32.self) & 0x1F
    // Kind 18 is an enum. A descriptor of another kind has no relative pointer at this address.
    guard kind == 18, let fields = resolveRelativePointer(nominal + 16) else { return "\(kind)" }
    let size = fields.load(fromByteOffset: 10, as: UInt16.self)
    return "\(kind) \(size) \(fields.load(fromByteOffset: 12, as: UInt32.self))"
  }

  /// Returns the target of a relative pointer, or `nil` if the pointer is null.
  private static func resolveRelativePointer(_ address: UnsafeRawPointer) -> UnsafeRawPointer? {
    let offset = Int(address.load(as: Int32.self))
    return offset == 0 ? nil : address + offset
  }

  /// Returns the length of a mangled name, whose symbolic references may contain zero bytes.
  private static func length(of name: UnsafeRawPointer) -> UInt {
    var end = 0
    while true {
      switch name.load(fromByteOffset: end, as: UInt8.self) {
      case 0: return UInt(end)
      case 0x01...0x17: end += 5
      case 0x18...0x1F: end += 9
      default: end += 1
      }
    }
  }
}

/// Returns the kind of a type. This is the Swift runtime's function that the standard library's
/// reflection calls.
@_silgen_name("swift_getMetadataKind")
private func metadataKind(_ type: Any.Type) -> UInt

/// The Swift runtime's record of a type, read as Swift 6.3 lays it out on 64-bit systems.
///
/// Swift does not guarantee this layout on Linux. For newer compilers, ``MetadataCanary`` checks
/// whether the layout is the same.
///
/// Enum values are read through functions in the value witness table of their type, which take a
/// few nanoseconds. One function returns the tag of a value, and another function extracts the
/// payload.
@usableFromInline
struct TypeMetadata: @unchecked Sendable {  // Immutable memory that lives as long as the process.
  @usableFromInline let pointer: UnsafeRawPointer

  @inlinable
  init(_ type: Any.Type) { pointer = unsafeBitCast(type, to: UnsafeRawPointer.self) }

  /// The kinds of types that PipeRuntime distinguishes, numbered as in `MetadataKind.def` of the
  /// Swift runtime.
  @usableFromInline
  enum Kind {
    static let structure: UInt = 0x200
    @usableFromInline static let function: UInt = 0x302
    @usableFromInline static let enumeration: UInt = 0x201
    @usableFromInline static let optional: UInt = 0x202
    @usableFromInline static let tuple: UInt = 0x301
    static let existential: UInt = 0x303
    static let existentialMetatype: UInt = 0x306
  }

  @inlinable
  var kind: UInt { TypeReading.isReflective ? reflectedKind : storedKind }

  @inlinable
  var storedKind: UInt { pointer.load(as: UInt.self) }

  /// The kind of the type, as the standard library reads it.
  @usableFromInline
  var reflectedKind: UInt { metadataKind(unsafeBitCast(pointer, to: Any.Type.self)) }

  @inlinable
  var isEnum: Bool { kind == Kind.enumeration || kind == Kind.optional }

  var isStoredEnum: Bool { storedKind == Kind.enumeration || storedKind == Kind.optional }

  @inlinable
  var valueWitnessTable: UnsafeRawPointer {
    pointer.load(fromByteOffset: -8, as: UnsafeRawPointer.self)
  }

  @usableFromInline
  var alignmentMask: Int { Int(valueWitnessTable.load(fromByteOffset: 80, as: UInt32.self) & 0xFF) }
}

// The value witnesses that only enums have.
extension TypeMetadata {
  @usableFromInline
  typealias GetTag = @convention(c) (UnsafeRawPointer, UnsafeRawPointer) -> UInt32
  @usableFromInline
  typealias Project = @convention(c) (UnsafeMutableRawPointer, UnsafeRawPointer) -> Void
  @usableFromInline
  typealias Inject = @convention(c) (UnsafeMutableRawPointer, UInt32, UnsafeRawPointer) -> Void

  /// Returns the tag of the enum value that `value` points to. Cases with a payload come first,
  /// then cases without a payload, each group in the order of declaration.
  @inlinable
  func tag(of value: UnsafeRawPointer) -> Int {
    Int(valueWitnessTable.load(fromByteOffset: 88, as: GetTag.self)(value, pointer))
  }

  /// Removes the tag from the bits of an enum value, so that only the bits of the payload remain.
  @inlinable
  func project(_ value: UnsafeMutableRawPointer) {
    valueWitnessTable.load(fromByteOffset: 96, as: Project.self)(value, pointer)
  }

  /// Turns the bits of a payload into the bits of a value of the case with this tag.
  @inlinable
  func inject(_ tag: Int, into value: UnsafeMutableRawPointer) {
    valueWitnessTable.load(fromByteOffset: 104, as: Inject.self)(value, UInt32(tag), pointer)
  }
}

// Tuples: the payload of a case with several values, or with labels.
extension TypeMetadata {
  struct Element {
    var label = ""
    var type: Any.Type
    /// The offset of the element in the tuple. Unit: bytes.
    var offset = 0
  }

  /// The elements of a tuple. For any other type, one element: the type itself, without a label.
  var elements: [Element] {
    let type = unsafeBitCast(pointer, to: Any.Type.self)
    guard storedKind == Kind.tuple else { return [Element(type: type)] }
    let count = pointer.load(fromByteOffset: 8, as: Int.self)
    var labels = Array(repeating: "", count: count)
    if let text = pointer.load(fromByteOffset: 16, as: UnsafePointer<CChar>?.self) {
      let words = String(cString: text).split(separator: " ", omittingEmptySubsequences: false)
      for (index, word) in words.prefix(count).enumerated() { labels[index] = String(word) }
    }
    return (0..<count).map { index in
      let element = pointer + 24 + 16 * index
      return Element(
        label: labels[index], type: element.load(as: Any.Type.self),
        // The offset has 32 bits on Linux and 64 bits on other systems. The lower 32 bits are
        // sufficient on all systems.
        offset: Int(element.load(fromByteOffset: 8, as: UInt32.self)))
    }
  }
}
