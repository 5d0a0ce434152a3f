@_spi(Reflection) import Swift

/// The stored properties of a struct, read through the reflection of the standard library.
enum StructFields {
  /// Returns the properties in the order of declaration; `nil` for a type that is not a struct.
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
