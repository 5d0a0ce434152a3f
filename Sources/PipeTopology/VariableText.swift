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

/// Hides from YAML what is special to it between `${` and `}`: in flow style a brace would end the
/// text.
///
/// Each character is replaced by one other, so that all places stay as they are.
struct VariableDisguise {
  /// The text to be read.
  let text: [UInt8]
  /// Whether a character of it stands for another.
  private let isOn: Bool

  /// Characters of a plane for private use, by what they stand for.
  private static let standIns = Dictionary(
    uniqueKeysWithValues: "{}[],:#".utf8.map { ($0, Unicode.Scalar(0x10_FF00 + UInt32($0))!) })
  /// What the UTF-8 of each begins with, and of others in the last part of that plane.
  private static let mark: [UInt8] = [0xF4, 0x8F]

  /// - Parameter text: UTF-8.
  init(_ text: [UInt8]) {
    let spans = Self.spans(of: text)
    // A text that has such characters of its own is left as it is.
    guard !spans.isEmpty, !text.contains(Self.mark) else {
      (self.text, isOn) = (text, false)
      return
    }
    var hidden: [UInt8] = []
    hidden.reserveCapacity(text.count + 8 * spans.count)
    var end = 0
    for span in spans {
      hidden += text[end..<span.lowerBound]
      for byte in text[span] {
        if let standIn = Self.standIns[byte] {
          hidden += UTF8.encode(standIn)!
        } else {
          hidden.append(byte)
        }
      }
      end = span.upperBound
    }
    (self.text, isOn) = (hidden + text[end...], true)
  }

  /// The text as it stands in the file.
  func removed(from text: String) -> String {
    guard isOn, text.utf8.contains(Self.mark[0]) else { return text }
    var shown = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      let byte = UInt8(exactly: Int(scalar.value) - 0x10_FF00)
      if let byte, Self.standIns[byte] != nil {
        shown.append(Unicode.Scalar(byte))
      } else {
        shown.append(scalar)
      }
    }
    return String(shown)
  }

  /// Where there is `{…}` after a dollar, in one line, with the variables inside. A quote may end the text around it.
  private static func spans(of text: [UInt8]) -> [Range<Int>] {
    var spans: [Range<Int>] = []
    // The starts of the variables that are not closed yet.
    var starts: [Int] = []
    for (index, byte) in text.enumerated() {
      switch byte {
      case UInt8(ascii: "{"):
        // A brace that is no variable's belongs to the text around it.
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
