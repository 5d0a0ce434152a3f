import PipeSupport

/// The language of variables in a topology file: `${NAME}`, `${NAME:-default}`, `$$` for a dollar.
///
/// A dollar before anything else is one.
enum VariableText {
  /// A piece of a text.
  enum Piece: Hashable {
    case text(String)
    /// `$$`
    case dollar
    case variable(String, default: String?)
  }

  /// Takes a text apart; neighbouring text is one piece.
  static func parse(_ text: String) throws(VariableTextError) -> [Piece] {
    var pieces: [Piece] = []
    var plain = ""
    func take(_ piece: Piece) {
      if !plain.isEmpty { pieces.append(.text(plain)) }
      plain = ""
      pieces.append(piece)
    }
    var rest = text.unicodeScalars[...]
    while let scalar = rest.popFirst() {
      switch (scalar, rest.first) {
      case ("$", "$"):
        rest.removeFirst()
        take(.dollar)
      case ("$", "{"):
        rest.removeFirst()
        guard let end = rest.firstIndex(of: "}") else { throw .unclosed(text) }
        take(try variable(String(rest[..<end])))
        rest = rest[rest.index(after: end)...]
      default: plain.unicodeScalars.append(scalar)
      }
    }
    if !plain.isEmpty { pieces.append(.text(plain)) }
    return pieces
  }

  /// What stands between the braces.
  private static func variable(_ text: String) throws(VariableTextError) -> Piece {
    let name = String(text.prefix { $0 != ":" })
    let rest = text.dropFirst(name.count)
    guard isVariableName(name), rest.isEmpty || rest.hasPrefix(":-") else { throw .unknown(text) }
    guard !rest.contains("${") else { throw .nested(name) }
    return .variable(name, default: rest.isEmpty ? nil : String(rest.dropFirst(2)))
  }
}

/// Why a text with `${` is none with variables.
enum VariableTextError: Error, Hashable, CustomStringConvertible {
  case unclosed(String)
  case unknown(String)
  case nested(String)

  var description: String {
    switch self {
    case .unclosed(let text): "in '\(text)' a '${' has no '}' after it; \(Self.advice)"
    case .unknown(let text): "'${\(text)}' is no variable; \(Self.advice)"
    case .nested(let name):
      "the default of '${\(name)}' has a variable in it; write the default itself there"
    }
  }

  private static let advice =
    "write '${NAME}' or '${NAME:-default}', with a name of A-Z a-z 0-9 _, or '$$' for a dollar"
}
