@_spi(Reflection) import Swift

/// The stored properties of a struct, read by the standard library's reflection.
enum StructFields {
  /// Returns the properties as declared; `nil` for a type that is not a struct.
  static func of(_ type: Any.Type) -> [(name: String, type: Any.Type)]? {
    guard TypeMetadata(type).kind == TypeMetadata.Kind.structure else { return nil }
    var fields: [(name: String, type: Any.Type)] = []
    _forEachField(of: type) { name, _, type, _ in
      fields.append((String(cString: name), type))
      return true
    }
    return fields
  }
}
