/// The cases of an enum, or the fields of a struct, as the compiler recorded them.
struct FieldDescriptor {
  struct Record {
    var name: String
    /// The type of the payload or field; `nil` for a bare case, and where it cannot be named.
    var payload: Any.Type?
    var isIndirect: Bool
    var hasPayload: Bool
  }

  /// In tag order, or as declared.
  let records: [Record]

  /// Reads the descriptor of a nominal type; `nil` where reflection metadata is switched off.
  init?(of metadata: TypeMetadata) {
    let nominal = metadata.pointer.load(fromByteOffset: 8, as: UnsafeRawPointer.self)
    guard let fields = Self.follow(nominal + 16) else { return nil }
    let isGeneric = nominal.load(as: UInt32.self) & 0x80 != 0
    let arguments = isGeneric ? metadata.pointer + 16 : nil
    let size = Int(fields.load(fromByteOffset: 10, as: UInt16.self))
    let count = Int(fields.load(fromByteOffset: 12, as: UInt32.self))
    records = (0..<count).map { index in
      let record = fields + 16 + index * size
      let mangled = Self.follow(record + 4)
      let name = Self.follow(record + 8)
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

  /// The target of a relative pointer, or `nil` where it is null.
  private static func follow(_ address: UnsafeRawPointer) -> UnsafeRawPointer? {
    let offset = Int(address.load(as: Int32.self))
    return offset == 0 ? nil : address + offset
  }

  /// The length of a mangled name, whose symbolic references may contain zero bytes.
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
