import PipeSupport

/// The syntax of variables in a topology file, as in Docker Compose.
///
/// `${NAME}`, `${NAME:-default}`, `${NAME:?message}` and `${NAME:+alternative}` are variables; each
/// form with an operator also works without the colon. `$$` is a dollar.
///
/// A dollar before any other character is itself. The text after an operator may have variables, too.
enum VariableText {
  /// A piece of a text.
  enum Piece: Hashable {
    case text(String)
    /// `$$`
    case dollar
    case variable(String, Rule?)
  }

  /// The rule for a variable that is set, or is missing.
  struct Rule: Hashable {
    enum Operator: Character, Hashable {
      /// The text replaces a variable that is missing.
      case fallback = "-"
      /// A missing variable is an error; the text is the message.
      case required = "?"
      /// The text replaces a variable that is set.
      case alternative = "+"
    }

    var `operator`: Operator
    /// Whether an empty variable counts as missing, because the operator has a colon.
    var treatsEmptyAsMissing: Bool
    var text: [Piece]
  }

  /// Splits a text into pieces; adjacent text forms one piece.
  static func parse(_ text: String) throws(VariableTextError) -> [Piece] {
    var parser = Parser(whole: text, rest: text.unicodeScalars[...])
    return try parser.pieces(within: nil)
  }

  private struct Parser {
    let whole: String
    var rest: Substring.UnicodeScalarView

    /// - Parameter variable: The variable whose braces enclose the pieces; `nil` for the whole text.
    mutating func pieces(within variable: String?) throws(VariableTextError) -> [Piece] {
      var pieces: [Piece] = []
      var plain = ""
      func add(_ piece: Piece) {
        if !plain.isEmpty { pieces.append(.text(plain)) }
        plain = ""
        pieces.append(piece)
      }
      while let scalar = rest.popFirst() {
        switch (scalar, rest.first) {
        case ("$", "$"):
          rest.removeFirst()
          add(.dollar)
        case ("$", "{"):
          rest.removeFirst()
          add(try self.variable())
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

    /// Parses the text from `${` to the matching `}`.
    private mutating func variable() throws(VariableTextError) -> Piece {
      let start = rest
      guard start.contains("}") else { throw .unclosed(whole) }
      let name = String(Substring(rest.prefix { isVariableName("_" + String($0)) }))
      rest = rest.dropFirst(name.unicodeScalars.count)
      let treatsEmptyAsMissing = rest.first == ":"
      if treatsEmptyAsMissing { rest.removeFirst() }
      let next = rest.popFirst()
      let found = next.flatMap { Rule.Operator(rawValue: Character($0)) }
      guard isVariableName(name), found != nil || next == "}" && !treatsEmptyAsMissing else {
        throw .unknown(String(Substring(start.prefix { $0 != "}" })))
      }
      guard let found else { return .variable(name, nil) }
      return .variable(
        name,
        Rule(
          operator: found, treatsEmptyAsMissing: treatsEmptyAsMissing,
          text: try pieces(within: name)))
    }
  }
}

/// The reason why the variables of a text are invalid.
enum VariableTextError: Error, Hashable, CustomStringConvertible {
  case unclosed(String)
  case unknown(String)

  var description: String {
    switch self {
    case .unclosed(let text): "unterminated '${' in '\(text)': missing '}'; \(Self.advice)"
    case .unknown(let text): "'${\(text)}' is not a valid variable; \(Self.advice)"
    }
  }

  private static let advice =
    "write '${NAME}', '${NAME:-default}', '${NAME:?message}' or '${NAME:+alternative}', with a "
    + "name of A-Z a-z 0-9 _, or '$$' for a dollar sign"
}

/// A disguise for the characters between `${` and `}` that have a meaning in YAML: in flow style a
/// brace would end the text.
///
/// Each character is replaced by one other character, so that all locations stay the same.
struct VariableMask {
  /// The disguised text, for the YAML parser.
  let text: [UInt8]
  /// Whether any character is replaced.
  private let isMasked: Bool

  /// The replacement for each special character, from a private-use plane.
  private static let replacements = Dictionary(
    uniqueKeysWithValues: "{}[],:#".utf8.map { ($0, Unicode.Scalar(0x10_FF00 + UInt32($0))!) })
  /// The first bytes of each replacement's UTF-8, which the last part of that plane shares.
  private static let replacementPrefix: [UInt8] = [0xF4, 0x8F]

  /// - Parameter text: UTF-8.
  init(_ text: [UInt8]) {
    let spans = Self.spans(of: text)
    // A text with such characters of its own is left unchanged.
    guard !spans.isEmpty, !text.contains(Self.replacementPrefix) else {
      (self.text, isMasked) = (text, false)
      return
    }
    var maskedText: [UInt8] = []
    maskedText.reserveCapacity(text.count + 8 * spans.count)
    var end = 0
    for span in spans {
      maskedText += text[end..<span.lowerBound]
      for byte in text[span] {
        if let substitute = Self.replacements[byte] {
          maskedText += UTF8.encode(substitute)!
        } else {
          maskedText.append(byte)
        }
      }
      end = span.upperBound
    }
    (self.text, isMasked) = (maskedText + text[end...], true)
  }

  /// Returns the text as written in the file.
  func restoredText(from text: String) -> String {
    guard isMasked, text.utf8.contains(Self.replacementPrefix[0]) else { return text }
    var originalText = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      let byte = UInt8(exactly: Int(scalar.value) - 0x10_FF00)
      if let byte, Self.replacements[byte] != nil {
        originalText.append(Unicode.Scalar(byte))
      } else {
        originalText.append(scalar)
      }
    }
    return String(originalText)
  }

  /// Returns the ranges of `{…}` after a dollar within one line, nested variables included. A quote
  /// may end the enclosing text.
  private static func spans(of text: [UInt8]) -> [Range<Int>] {
    var spans: [Range<Int>] = []
    // The starts of the variables that are still open.
    var starts: [Int] = []
    for (index, byte) in text.enumerated() {
      switch byte {
      case UInt8(ascii: "{"):
        // A brace without a dollar belongs to the surrounding text.
        starts = index > 0 && text[index - 1] == UInt8(ascii: "$") ? starts + [index] : []
      case UInt8(ascii: "}"):
        guard let start = starts.popLast() else { continue }
        if starts.isEmpty { spans.append(start..<index + 1) }
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\""), UInt8(ascii: "'"):
        starts = []
      default: break
      }
    }
    return spans
  }
}
