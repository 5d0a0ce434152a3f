import PipeSupport
import PipeWire

/// The variables of a `.env` file, with one `NAME=value` per line.
///
/// Blanks around an unquoted value are ignored, and ` #` after the value begins a comment. Text in
/// `'…'` is literal. In `"…"`, a backslash escapes the next character. A value must not refer to a
/// variable, as in `$HOME`.
struct EnvironmentFile {
  private(set) var values: [String: String] = [:]
  /// The errors that concern a single line.
  private(set) var lineErrors: [(mark: TextPosition, message: String)] = []

  init(_ bytes: [UInt8]) {
    let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes[3...] : bytes[...]
    let lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    for (index, line) in lines.enumerated() {
      do throws(LineError) {
        guard let text = String(validating: line, as: UTF8.self) else { throw .notUTF8 }
        guard let (name, value) = try Self.parseLine(text) else { continue }
        values[name] = value
      } catch {
        lineErrors.append((TextPosition(line: index + 1, column: 1), error.description))
      }
    }
  }

  private enum LineError: Error, CustomStringConvertible {
    case notUTF8, noAssignment, badName(String), unclosed, trailingText, variable

    var description: String {
      switch self {
      case .notUTF8: "this line is not UTF-8; save the file as UTF-8"
      case .noAssignment: "this line has no '='; write NAME=value, or '#' before a comment"
      case .badName(let name):
        "'\(name)' is not a valid variable name; use A-Z a-z 0-9 _, not starting with a digit"
      case .unclosed: "unterminated quote; close the quote on the same line"
      case .trailingText:
        "unexpected text after the closing quote; remove the text, or write '#' before it"
      case .variable:
        "variables are not expanded in this file; write the value itself, in '…' if the value "
          + "contains '$'"
      }
    }
  }

  /// Returns the name and the value of a line; `nil` for a blank line or a comment.
  private static func parseLine(_ line: String) throws(LineError) -> (String, String)? {
    var line = line.trimmingBlanks
    if line.isEmpty || line.hasPrefix("#") { return nil }
    if line.hasPrefix("export ") { line = line.dropFirst(7).trimmingBlanks }
    guard let equals = line.firstIndex(of: "=") else { throw .noAssignment }
    let name = String(line[..<equals].trimmingBlanks)
    guard isVariableName(name) else { throw .badName(name) }
    return (name, try parseValue(line[line.index(after: equals)...]))
  }

  private static func parseValue(_ text: Substring) throws(LineError) -> String {
    let trimmed = text.trimmingBlanks
    switch trimmed.first {
    case "'":
      guard let end = trimmed.dropFirst().firstIndex(of: "'") else { throw .unclosed }
      try checkEnd(trimmed[trimmed.index(after: end)...])
      return String(trimmed[..<end].dropFirst())
    case "\"": return try parseQuotedText(trimmed.dropFirst())
    default:
      let value = withoutComment(text).trimmingBlanks
      guard !containsVariable(value) else { throw .variable }
      return String(value)
    }
  }

  /// Returns the text up to a closing `"`.
  private static func parseQuotedText(_ text: Substring) throws(LineError) -> String {
    var value = ""
    var rest = text
    while let character = rest.popFirst() {
      switch character {
      case "\"":
        try checkEnd(rest)
        return value
      case "\\":
        guard let escaped = rest.popFirst() else { throw .unclosed }
        value.append(["n": "\n", "r": "\r", "t": "\t"][escaped] ?? escaped)
      case "$":
        guard !containsVariable("$" + String(rest.prefix(1))) else { throw .variable }
        value.append("$")
      default: value.append(character)
      }
    }
    throw .unclosed
  }

  private static func checkEnd(_ rest: Substring) throws(LineError) {
    let rest = rest.trimmingBlanks
    guard rest.isEmpty || rest.hasPrefix("#") else { throw .trailingText }
  }

  /// Returns the text before a `#` that follows a blank.
  private static func withoutComment(_ text: Substring) -> Substring {
    var isAfterBlank = false
    for index in text.indices {
      if text[index] == "#", isAfterBlank { return text[..<index] }
      isAfterBlank = text[index] == " " || text[index] == "\t"
    }
    return text
  }

  /// Returns whether the text refers to a variable, as in `$HOME`.
  ///
  /// Other readers of `.env` files would replace the variable by its value.
  private static func containsVariable(_ text: some StringProtocol) -> Bool {
    zip(text.unicodeScalars, text.unicodeScalars.dropFirst()).contains { dollar, next in
      dollar == "$" && (next == "{" || isVariableName(String(next)))
    }
  }
}

extension StringProtocol where SubSequence == Substring {
  /// The text without blanks and carriage returns at its ends.
  fileprivate var trimmingBlanks: Substring {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" || $0 == "\r" }
    var rest = self[...].drop(while: isBlank)
    while let last = rest.last, isBlank(last) { rest.removeLast() }
    return rest
  }
}
