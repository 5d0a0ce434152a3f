/// Makes values that may be moved and copied but not looked at: zeroed memory.
///
/// The last resort to tell which case a constructor makes, where several cases carry the same types
/// and no valid value of these can be made. A constructor does no more with its arguments than to
/// copy them.
enum Hollow {
  /// Whether zeroed memory of all these types bears being copied.
  static func canMake<each Value>(_: repeat (each Value).Type) -> Bool {
    for type in repeat (each Value).self {
      guard bearsCopying(type, depth: 0) else { return false }
    }
    return true
  }

  /// One value of each type. Not an optional: zeroed memory may be what `nil` looks like.
  static func values<each Value>(_: repeat (each Value).Type) -> (repeat each Value) {
    (repeat value((each Value).self))
  }

  private static func value<Value>(_ type: Value.Type) -> Value {
    withUnsafeTemporaryAllocation(
      byteCount: max(1, MemoryLayout<Value>.size), alignment: MemoryLayout<Value>.alignment
    ) { memory in
      memory.initializeMemory(as: UInt8.self, repeating: 0)
      if TypeMetadata(type).isOpaqueExistential {
        // A container that says that it holds an Int; its witness tables are not asked for.
        memory.storeBytes(
          of: TypeMetadata(Int.self).pointer, toByteOffset: 24, as: UnsafeRawPointer.self)
      }
      return memory.baseAddress!.assumingMemoryBound(to: Value.self).move()
    }
  }

  /// Null references bear being copied; a container of unknown type inside a struct does not.
  private static func bearsCopying(_ type: Any.Type, depth: Int) -> Bool {
    let metadata = TypeMetadata(type)
    if metadata.isTrivial { return true }
    guard depth < 16 else { return false }
    switch metadata.kind {
    case TypeMetadata.Kind.existential: return depth == 0 || !metadata.isOpaqueExistential
    case TypeMetadata.Kind.structure:
      return FieldDescriptor(of: metadata)?.records.allSatisfy {
        $0.payload.map { bearsCopying($0, depth: depth + 1) } ?? true
      } ?? false
    case TypeMetadata.Kind.enumeration, TypeMetadata.Kind.optional:
      return FieldDescriptor(of: metadata)?.records.allSatisfy {
        // Zero is a null box, which bears being copied like any reference.
        $0.isIndirect || ($0.payload.map { bearsCopying($0, depth: depth + 1) } ?? true)
      } ?? false
    case TypeMetadata.Kind.tuple:
      return metadata.elements.allSatisfy { bearsCopying($0.type, depth: depth + 1) }
    case TypeMetadata.Kind.function, TypeMetadata.Kind.object, TypeMetadata.Kind.builtin:
      return true
    default: return false
    }
  }
}

extension TypeMetadata {
  /// Copied bit by bit.
  var isTrivial: Bool { witnesses.load(fromByteOffset: 80, as: UInt32.self) & 0x10000 == 0 }

  /// An `any P` whose values lie in a container of three words, beside their type.
  var isOpaqueExistential: Bool {
    guard kind == Kind.existential else { return false }
    let flags = pointer.load(fromByteOffset: 8, as: UInt32.self)
    let isClassBound = flags & 0x8000_0000 == 0
    let isError = flags & 0x3F00_0000 != 0
    return !isClassBound && !isError
  }
}
