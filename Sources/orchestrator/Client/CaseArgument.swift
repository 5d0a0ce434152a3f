import PipeRuntime

/// States and events as a user types them on the command line: a label, or JSON.
package enum CaseArgument {
  /// Reads `closed` or `{"closing":{"persons":3}}`.
  /// - Parameter noun: The kind of value, for error messages: `event`, `state`.
  package static func parse(_ text: String, noun: String) throws(CommandError) -> JSONValue {
    let isJSON = text.first { !$0.isWhitespace }.map { "{\"[".contains($0) } ?? false
    guard isJSON else {
      guard isLabel(text) else { throw invalidArgument(text, "is neither a label nor JSON") }
      return .string(text)
    }
    guard let value = try? JSONValue(parsing: text.utf8) else {
      throw invalidArgument(text, "is not valid JSON")
    }
    if let number = JSONValue.integerOutOfRange(in: text.utf8) {
      throw CommandError(
        "\(number) in '\(text.printable.cut(to: 200))' is out of range: integers range from "
          + "\(Int64.min) to \(Int64.max); write the number with an exponent if it may be "
          + "rounded",
        code: .usage)
    }
    guard let label = value.caseName, isLabel(label), value.caseMembers != nil else {
      throw invalidArgument(
        text, "is JSON, but not \(noun == "event" ? "an" : "a") \(noun): " + mismatchReason(value))
    }
    return value
  }

  /// Returns the reason why a JSON value is neither a label nor a label with fields.
  private static func mismatchReason(_ value: JSONValue) -> String {
    guard case .object(let members) = value else { return "not an object" }
    if members.isEmpty { return "the object has no label" }
    if let label = value.caseName {
      return isLabel(label)
        ? "the value of '\(label)' is not an object of fields"
        : "'\(label.printable.cut(to: 40))' is not a valid label"
    }
    let keys = members.keys.sorted().prefix(3).map { "'\($0.printable.cut(to: 40))'" }
    let list = keys.joined(separator: ", ") + (members.count > keys.count ? ", …" : "")
    return
      "the object must have one key, the label with its fields inside, but has "
      + "\(members.count) keys: \(list)"
  }

  private static func isLabel(_ text: String) -> Bool {
    guard let first = text.first, first.isLetter || first == "_" else { return false }
    return text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
  }

  private static func invalidArgument(_ text: String, _ mismatch: String) -> CommandError {
    CommandError(
      "'\(text.printable.cut(to: 200))' \(mismatch); write a label such as 'closed', or a label "
        + "with fields such as '{\"closing\":{\"persons\":3}}'", code: .usage)
  }
}
