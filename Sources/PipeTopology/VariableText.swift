import PipeSupport

/// The language of variables in a topology file, as Compose has it: `${NAME}`, `${NAME:-default}`, `${NAME:?message}`,
/// `${NAME:+alternative}`, each also without the colon, and `$$` for a dollar.
///
/// A dollar before anything else is one. What stands behind the operator may have variables itself.
enum VariableText {
  /// A piece of a text.
  enum Piece: Hashable {
    case text(String)
    /// `$$`
    case dollar
    case variable(String, Rule?)
  }

  /// What counts where a variable is set, or is not.
  struct Rule: Hashable {
    enum Operator: Character, Hashable {
      /// The text counts where the variable is missing.
      case fallback = "-"
      /// A missing variable is an error, and the text says why.
      case required = "?"
      /// The text counts in place of a variable that is there.
      case alternative = "+"
    }

    var `operator`: Operator
    /// Whether a variable that is empty counts as missing: the operator has a colon.
    var coversEmpty: Bool
    var text: [Piece]
  }

  /// Takes a text apart; neighbouring text is one piece.
  static func parse(_ text: String) throws(VariableTextError) -> [Piece] {
    var parser = Parser(whole: text, rest: text.unicodeScalars[...])
    return try parser.pieces(within: nil)
  }

  private struct Parser {
    let whole: String
    var rest: Substring.UnicodeScalarView

    /// - Parameter variable: The one in whose braces the pieces stand; `nil` for the whole text.
    mutating func pieces(within variable: String?) throws(VariableTextError) -> [Piece] {
      var pieces: [Piece] = []
      var plain = ""
      func take(_ piece: Piece) {
        if !plain.isEmpty { pieces.append(.text(plain)) }
        plain = ""
        pieces.append(piece)
      }
      while let scalar = rest.popFirst() {
        switch (scalar, rest.first) {
        case ("$", "$"):
          rest.removeFirst()
          take(.dollar)
        case ("$", "{"):
          rest.removeFirst()
          take(try self.variable())
        case ("}", _) where variable != nil:
          if !plain.isEmpty { pieces.append(.text(plain)) }
          return pieces
        default: plain.unicodeScalars.append(scalar)
        }
      }
      if variable != nil { throw .unclosed(whole) }
      if !plain.isEmpty { pieces.append(.text(plain)) }
      return pieces
    }

    /// What stands behind `${`, up to its `}`.
    private mutating func variable() throws(VariableTextError) -> Piece {
      let start = rest
      guard start.contains("}") else { throw .unclosed(whole) }
      let name = String(Substring(rest.prefix { isVariableName("_" + String($0)) }))
      rest = rest.dropFirst(name.unicodeScalars.count)
      let coversEmpty = rest.first == ":"
      if coversEmpty { rest.removeFirst() }
      let next = rest.popFirst()
      let found = next.flatMap { Rule.Operator(rawValue: Character($0)) }
      guard isVariableName(name), found != nil || next == "}" && !coversEmpty else {
        throw .unknown(String(Substring(start.prefix { $0 != "}" })))
      }
      guard let found else { return .variable(name, nil) }
      return .variable(
        name, Rule(operator: found, coversEmpty: coversEmpty, text: try pieces(within: name)))
    }
  }
}

/// Why a text with `${` is none with variables.
enum VariableTextError: Error, Hashable, CustomStringConvertible {
  case unclosed(String)
  case unknown(String)

  var description: String {
    switch self {
    case .unclosed(let text): "in '\(text)' a '${' has no '}' after it; \(Self.advice)"
    case .unknown(let text): "'${\(text)}' is no variable; \(Self.advice)"
    }
  }

  private static let advice =
    "write '${NAME}', '${NAME:-default}', '${NAME:?message}' or '${NAME:+alternative}', with a name of A-Z a-z 0-9 _, "
    + "or '$$' for a dollar"
}
