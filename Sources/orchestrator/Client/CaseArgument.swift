import PipeRuntime

/// States and events as typed on the command line: a bare label, or JSON.
package enum CaseArgument {
  /// Reads `closed` or `{"closing":{"persons":3}}`.
  /// - Parameter noun: The kind of value, for error messages: `event`, `state`.
  package static func parse(_ text: String, noun: String) throws(CommandError) -> JSONValue {
    let isJSON = text.first { !$0.isWhitespace }.map { "{\"[".contains($0) } ?? false
    guard isJSON else {
      guard isLabel(text) else { throw problem(text, "is neither a label nor JSON") }
      return .string(text)
    }
    guard let value = try? JSONValue(parsing: text.utf8) else {
      throw problem(text, "is not JSON")
    }
    if let number = JSONValue.wholeBeyondLimits(in: text.utf8) {
      throw CommandError(
        "\(number) in '\(text.printable.cut(to: 200))' is too large: whole numbers go from "
          + "\(Int64.min) to \(Int64.max). Write it with an exponent where it may be rounded",
        code: .usage)
    }
    guard let label = value.caseName, isLabel(label), value.caseMembers != nil else {
      throw problem(text, "is JSON, but no \(noun): " + reason(value))
    }
    return value
  }

  /// The reason why a JSON value is not a label with fields.
  private static func reason(_ value: JSONValue) -> String {
    guard case .object(let members) = value else { return "it is no object" }
    if members.isEmpty { return "it has no label" }
    if let label = value.caseName {
      return isLabel(label)
        ? "the value of '\(label)' is no object of fields"
        : "'\(label.printable.cut(to: 40))' is no label"
    }
    let keys = members.keys.sorted().prefix(3).map { "'\($0.printable.cut(to: 40))'" }
    let list = keys.joined(separator: ", ") + (members.count > keys.count ? ", …" : "")
    return
      "it has \(members.count) keys, \(list), and one alone is the label; fields stand inside it"
  }

  private static func isLabel(_ text: String) -> Bool {
    guard let first = text.first, first.isLetter || first == "_" else { return false }
    return text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
  }

  private static func problem(_ text: String, _ what: String) -> CommandError {
    CommandError(
      "'\(text.printable.cut(to: 200))' \(what). Write a label, as in 'closed', or the label with "
        + "its fields, as in '{\"closing\":{\"persons\":3}}'", code: .usage)
  }
}
