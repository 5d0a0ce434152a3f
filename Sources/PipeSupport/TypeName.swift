/// Names of types, from the runtime. `String(describing:)` says the same, and looks first whether the type
/// describes itself, for which it goes through all conformances of the process.
package enum TypeName {
  /// The name of a type alone, without its module and the types that it stands in.
  package static func own(_ type: Any.Type) -> String { _typeName(type, qualified: false) }

  /// The Swift name of a type, without its module.
  package static func of(_ type: Any.Type) -> String {
    // `Module.Outer.Inner`, or `Module.(unknown context at $1234).Inner` for a private type.
    let parts = _typeName(type, qualified: true).split(separator: ".").filter { !$0.hasPrefix("(") }
    guard parts.count > 1 else { return own(type) }
    // Not `joined`: for a slice the runtime looks for its conformance, among all of the process.
    var name = String(parts[1])
    for part in parts[2...] { name += ".\(String(part))" }
    return name
  }
}
