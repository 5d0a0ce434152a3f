/// The Swift name of a type, without its module.
package enum TypeName {
  package static func of(_ type: Any.Type) -> String {
    // `Module.Outer.Inner`, or `Module.(unknown context at $1234).Inner` for a private type.
    let parts = String(reflecting: type).split(separator: ".").filter { !$0.hasPrefix("(") }
    return parts.count > 1 ? parts.dropFirst().joined(separator: ".") : String(describing: type)
  }
}
