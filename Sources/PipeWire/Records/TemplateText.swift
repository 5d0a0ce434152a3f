import PipeSupport

/// The `$` language of payload templates: `$name` takes a value, `$$` is a dollar.
package enum TemplateText {
  /// A piece of a string.
  package enum Piece: Hashable, Sendable {
    case text(String)
    case variable(String)
  }

  /// Takes a string apart; neighbouring text is one piece.
  package static func parse(_ text: String) throws(PayloadTemplateError) -> [Piece] {
    var pieces: [Piece] = []
    var plain = ""
    var rest = text.unicodeScalars[...]
    while let scalar = rest.popFirst() {
      guard scalar == "$" else {
        plain.unicodeScalars.append(scalar)
        continue
      }
      if rest.first == "$" {
        plain.unicodeScalars.append(rest.removeFirst())
        continue
      }
      var end = rest.startIndex
      while end < rest.endIndex,
        isIdentifier(String(rest[rest.startIndex...end]))
      { end = rest.index(after: end) }
      let name = String(rest[..<end])
      guard !name.isEmpty else { throw PayloadTemplateError(text: text) }
      if !plain.isEmpty { pieces.append(.text(plain)) }
      plain = ""
      pieces.append(.variable(name))
      rest = rest[end...]
    }
    if !plain.isEmpty || pieces.isEmpty { pieces.append(.text(plain)) }
    return pieces
  }

  /// The variable that makes up a whole string, or `nil`.
  package static func wholeVariable(_ text: String) -> String? {
    if case .some(let pieces) = try? parse(text), pieces.count == 1,
      case .variable(let name) = pieces[0]
    {
      return name
    }
    return nil
  }
}

/// A string with a `$` that no name follows.
package struct PayloadTemplateError: Error, Hashable, CustomStringConvertible {
  /// The string.
  package var text: String

  package var description: String {
    "has a '$' without a name in '\(text)'; write '$name' for a value of the state, or '$$' for a "
      + "dollar"
  }
}
