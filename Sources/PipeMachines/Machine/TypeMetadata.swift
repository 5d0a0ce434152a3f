/// The runtime's own record of a type, read as Swift 6.3 lays it out on 64-bit systems.
///
/// Linux has no promise that another compiler does so, too: ``MetadataCanary`` looks.
///
/// Enums are matched through the value witness table of their type: it says which case a value is
/// and where its payload lies, in a few nanoseconds and without a copy.
@usableFromInline
struct TypeMetadata: @unchecked Sendable {  // Immutable memory that lives as long as the process.
  @usableFromInline let pointer: UnsafeRawPointer

  @inlinable
  init(_ type: Any.Type) { pointer = unsafeBitCast(type, to: UnsafeRawPointer.self) }

  /// The kinds that matter here, as `MetadataKind.def` of the Swift runtime numbers them.
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
  var kind: UInt { pointer.load(as: UInt.self) }

  @inlinable
  var isEnum: Bool { kind == Kind.enumeration || kind == Kind.optional }

  @inlinable
  var witnesses: UnsafeRawPointer { pointer.load(fromByteOffset: -8, as: UnsafeRawPointer.self) }

  @usableFromInline
  var alignmentMask: Int { Int(witnesses.load(fromByteOffset: 80, as: UInt32.self) & 0xFF) }
}

// The witnesses that only enums have.
extension TypeMetadata {
  @usableFromInline
  typealias GetTag = @convention(c) (UnsafeRawPointer, UnsafeRawPointer) -> UInt32
  @usableFromInline
  typealias Project = @convention(c) (UnsafeMutableRawPointer, UnsafeRawPointer) -> Void
  @usableFromInline
  typealias Inject = @convention(c) (UnsafeMutableRawPointer, UInt32, UnsafeRawPointer) -> Void

  /// The tag of the enum value at `value`: cases with a payload first, each group as declared.
  @inlinable
  func tag(of value: UnsafeRawPointer) -> Int {
    Int(witnesses.load(fromByteOffset: 88, as: GetTag.self)(value, pointer))
  }

  /// Strips the tag from the bits of an enum, which leaves those of its payload.
  @inlinable
  func project(_ value: UnsafeMutableRawPointer) {
    witnesses.load(fromByteOffset: 96, as: Project.self)(value, pointer)
  }

  /// Turns the bits of a payload into those of an enum.
  @inlinable
  func inject(_ tag: Int, into value: UnsafeMutableRawPointer) {
    witnesses.load(fromByteOffset: 104, as: Inject.self)(value, UInt32(tag), pointer)
  }
}

// Tuples: the payload of a case that has several values, or labelled ones.
extension TypeMetadata {
  struct Element {
    var label = ""
    var type: Any.Type
    /// Where it lies in the tuple. Unit: bytes.
    var offset = 0
  }

  /// The elements of a tuple, or the type itself, unlabelled.
  var elements: [Element] {
    let type = unsafeBitCast(pointer, to: Any.Type.self)
    guard kind == Kind.tuple else { return [Element(type: type)] }
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
        // 32 bits on Linux, and the lower half of 64 elsewhere.
        offset: Int(element.load(fromByteOffset: 8, as: UInt32.self)))
    }
  }
}
