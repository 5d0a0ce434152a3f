import PipeMachines

/// A document whose mappings keep their order: the common source of JSON and YAML text.
package enum OrderedValue: Sendable {
  /// Any value, written on one line.
  case leaf(JSONValue)
  /// A text of several lines, which are written as they are where YAML lets them.
  case block(String)
  case list([OrderedValue])
  case mapping([(key: String, value: OrderedValue)])

  package var json: JSONValue {
    switch self {
    case .leaf(let value): return value
    case .block(let text): return .string(text)
    case .list(let values): return .array(values.map(\.json))
    case .mapping(let members):
      return .object(
        Dictionary(members.map { ($0.key, $0.value.json) }) { first, _ in first })
    }
  }

  /// The YAML text, in block style.
  package var yaml: String {
    var out = ""
    write(into: &out, indent: 0, afterDash: false)
    return out
  }

  private func write(into out: inout String, indent: Int, afterDash: Bool) {
    let margin = String(repeating: " ", count: indent)
    switch self {
    case .leaf(let value): out += "\(YAMLText.flow(value))\n"
    case .block(let text):
      out += YAMLText.block(text, margin: margin) ?? "\(YAMLText.flow(.string(text)))\n"
    case .list(let values) where values.isEmpty: out += "[]\n"
    case .mapping(let members) where members.isEmpty: out += "{}\n"
    case .list(let values):
      for value in values {
        out += "\(margin)- "
        value.write(into: &out, indent: indent + 2, afterDash: true)
      }
    case .mapping(let members):
      for (index, member) in members.enumerated() {
        if !(afterDash && index == 0) { out += margin }
        out += YAMLText.scalar(member.key) + ":"
        out += member.value.startsOnItsOwnLine ? "\n" : " "
        member.value.write(into: &out, indent: indent + 2, afterDash: false)
      }
    }
  }

  private var startsOnItsOwnLine: Bool {
    switch self {
    case .leaf, .block: false
    case .list(let values): !values.isEmpty
    case .mapping(let members): !members.isEmpty
    }
  }
}

/// YAML text of single values.
enum YAMLText {
  /// A value on one line.
  static func flow(_ value: JSONValue) -> String {
    switch value {
    case .string(let text): return scalar(text)
    case .array(let values): return "[" + values.map(flow).joined(separator: ", ") + "]"
    case .object(let members) where members.isEmpty: return "{}"
    case .object(let members):
      let text = members.keys.sorted().map { "\(scalar($0)): \(flow(members[$0]!))" }
      return "{ " + text.joined(separator: ", ") + " }"
    case .null, .bool, .integer, .number: return value.text
    }
  }

  /// A text, without quotes where it reads back as the same text.
  static func scalar(_ text: String) -> String {
    // Readers of YAML 1.1 take these for booleans, and for numbers or days.
    let ambiguous =
      ["y", "yes", "n", "no", "on", "off"].contains(text.lowercased()) || isNumberOfOld(text)
    if !ambiguous, isPlain(text), case .string = YAMLScalar(text: text, isPlain: true).value {
      return text
    }
    var out = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": out += "\\\(scalar)"
      case " "..."~": out.unicodeScalars.append(scalar)
      default: out += escape(scalar)
      }
    }
    return out + "\""
  }

  /// A text as a literal block; `nil` where one could not hold it as it is.
  static func block(_ text: String, margin: String) -> String? {
    let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
    guard !margin.isEmpty, lines.count > 1, !lines[0].isEmpty,
      text.unicodeScalars.allSatisfy({ $0 == "\n" || $0 == "\t" || isPrintable($0) })
    else { return nil }
    // A reader counts what stands before the first line, unless it is told how much of it is the block's margin.
    let indentation = [" ", "\t"].contains(lines[0].first) ? "2" : ""
    let end = lines.reversed().prefix { $0.isEmpty }.count
    let chomping = end == 0 ? "-" : end == 1 ? "" : "+"
    let body = end == 0 ? lines[...] : lines.dropLast()
    return "|\(indentation)\(chomping)\n"
      + body.map { $0.isEmpty ? "\n" : "\(margin)\($0)\n" }.joined()
  }

  /// What YAML lets stand in a literal block; not what may be a line's end, or the mark of an order of bytes.
  private static func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x20...0x7E, 0xA0...0x2027, 0x202A...0xD7FF, 0xE000...0xFEFE, 0xFF00...0xFFFD,
      0x1_0000...0x10_FFFF:
      true
    default: false
    }
  }

  /// `1_000`, `0b1`, `2026-01-02`
  private static func isNumberOfOld(_ text: String) -> Bool {
    guard let first = text.utf8.first, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first)
    else { return false }
    return text.utf8.allSatisfy { "0123456789abcdefABCDEFoxOX_.-".utf8.contains($0) }
  }

  private static func isPlain(_ text: String) -> Bool {
    guard let first = text.utf8.first, isWord(first) || first == UInt8(ascii: "$") else {
      return text.hasPrefix("/") && isPlain(String(text.dropFirst()))
    }
    return text.utf8.allSatisfy { isWord($0) || "_./$-".utf8.contains($0) }
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    NamePattern.matches(String(UnicodeScalar(byte)), dots: false)
  }

  private static func escape(_ scalar: Unicode.Scalar) -> String {
    let hex = String(scalar.value, radix: 16, uppercase: true)
    let (letter, width) = scalar.value > 0xFFFF ? ("U", 8) : ("u", 4)
    return "\\\(letter)" + String(repeating: "0", count: width - hex.count) + hex
  }
}
