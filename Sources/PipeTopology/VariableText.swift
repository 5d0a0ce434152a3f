import PipeSupport

/// The syntax of variables in a topology file, as in Docker Compose.
///
/// Variables are `${NAME}`, `${NAME:-default}`, `${NAME:?message}` and `${NAME:+alternative}`. The
/// forms with an operator also exist without the colon. `$$` stands for a dollar sign.
///
/// A dollar sign before any other character is plain text. The text after an operator may itself
/// contain variables.
enum VariableText {
  /// A piece of a text.
  enum Piece: Hashable {
    case text(String)
    /// A dollar sign, written as `$$`.
    case dollar
    case variable(String, Rule?)
  }

  /// The operator of a variable, and the text after the operator.
  struct Rule: Hashable {
    enum Operator: Character, Hashable {
      /// If the variable is missing, the text after the operator is used.
      case fallback = "-"
      /// A missing variable is an error, whose message is the text after the operator.
      case required = "?"
      /// If the variable is set, the text after the operator is used instead of the variable's
      /// value.
      case alternative = "+"
    }

    var `operator`: Operator
    /// Whether an empty variable counts as missing, which is the meaning of the operator's colon.
    var treatsEmptyAsMissing: Bool
    var text: [Piece]
  }

  /// Splits a text into pieces.
  static func parse(_ text: String) throws(VariableTextError) -> [Piece] {
    var parser = Parser(wholeText: text, remainingText: text.unicodeScalars[...])
    return try parser.pieces(within: nil)
  }

  private struct Parser {
    let wholeText: String
    var remainingText: Substring.UnicodeScalarView

    /// - Parameter variable: The variable whose braces contain the pieces; `nil` at the top level
    ///   of the text.
    mutating func pieces(within variable: String?) throws(VariableTextError) -> [Piece] {
      var pieces: [Piece] = []
      var plain = ""
      func add(_ piece: Piece) {
        if !plain.isEmpty { pieces.append(.text(plain)) }
        plain = ""
        pieces.append(piece)
      }
      while let scalar = remainingText.popFirst() {
        switch (scalar, remainingText.first) {
        case ("$", "$"):
          remainingText.removeFirst()
          add(.dollar)
        case ("$", "{"):
          remainingText.removeFirst()
          add(try self.variable())
        case ("}", _) where variable != nil:
          if !plain.isEmpty { pieces.append(.text(plain)) }
          return pieces
        default: plain.unicodeScalars.append(scalar)
        }
      }
      if variable != nil { throw .unclosed(wholeText) }
      if !plain.isEmpty { pieces.append(.text(plain)) }
      return pieces
    }

    /// Parses the text from `${` to the matching `}`.
    private mutating func variable() throws(VariableTextError) -> Piece {
      let start = remainingText
      guard start.contains("}") else { throw .unclosed(wholeText) }
      let name = String(Substring(remainingText.prefix { isVariableName("_" + String($0)) }))
      remainingText = remainingText.dropFirst(name.unicodeScalars.count)
      let treatsEmptyAsMissing = remainingText.first == ":"
      if treatsEmptyAsMissing { remainingText.removeFirst() }
      let next = remainingText.popFirst()
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

/// A mask that hides YAML's special characters between `${` and `}`.
///
/// Without the mask, the closing brace of a variable would end a text in YAML's flow style.
///
/// Each special character is replaced by exactly one other character, so that columns do not
/// change.
struct VariableMask {
  /// The masked text, for the YAML parser.
  let text: [UInt8]
  /// Whether any character is replaced.
  private let isMasked: Bool

  /// The replacement for each special character, from a private-use plane.
  private static let replacements = Dictionary(
    uniqueKeysWithValues: "{}[],:#".utf8.map { ($0, Unicode.Scalar(0x10_FF00 + UInt32($0))!) })
  /// The first two bytes of each replacement in UTF-8.
  private static let replacementPrefix: [UInt8] = [0xF4, 0x8F]

  /// - Parameter text: UTF-8.
  init(_ text: [UInt8]) {
    let spans = Self.spans(of: text)
    // If the text already contains replacement characters, nothing is masked.
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

  /// Replaces the masked characters in a text by the original characters.
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

  /// Returns the ranges of `{…}` after a dollar sign; nested variables are included in the outer
  /// range. A range does not extend beyond a line's end or a quote, which may end the YAML text.
  private static func spans(of text: [UInt8]) -> [Range<Int>] {
    var spans: [Range<Int>] = []
    // The start positions of the variables whose closing brace has not been found yet.
    var spanStarts: [Int] = []
    for (index, byte) in text.enumerated() {
      switch byte {
      case UInt8(ascii: "{"):
        // A brace that does not follow a dollar sign is not part of a variable.
        spanStarts = index > 0 && text[index - 1] == UInt8(ascii: "$") ? spanStarts + [index] : []
      case UInt8(ascii: "}"):
        guard let start = spanStarts.popLast() else { continue }
        if spanStarts.isEmpty { spans.append(start..<index + 1) }
      case UInt8(ascii: "\n"), UInt8(ascii: "\r"), UInt8(ascii: "\""), UInt8(ascii: "'"):
        spanStarts = []
      default: break
      }
    }
    return spans
  }
}
