/// Names of types, read from the Swift runtime. `String(describing:)` returns the same names, but
/// is slower: it first searches all conformances in the process for a description of the type.
package enum TypeName {
  /// Returns the name of a type without its module and enclosing types.
  package static func unqualified(_ type: Any.Type) -> String { _typeName(type, qualified: false) }

  /// Returns the Swift name of a type with its enclosing types and without its module:
  /// `Outer.Inner`.
  package static func of(_ type: Any.Type) -> String {
    // `Module.Outer.Inner`, or `Module.(unknown context at $1234).Inner` for a private type.
    let parts = _typeName(type, qualified: true).split(separator: ".").filter { !$0.hasPrefix("(") }
    guard parts.count > 1 else { return unqualified(type) }
    // `joined` would be slower: for a slice, the runtime searches all conformances of the process.
    var name = String(parts[1])
    for part in parts[2...] { name += ".\(String(part))" }
    return name
  }
}
