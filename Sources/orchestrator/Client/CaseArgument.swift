import PipeRuntime

/// States and events as typed: a bare label, or JSON.
package enum CaseArgument {
  /// Reads `closed` or `{"closing":{"persons":3}}`.
  /// - Parameter noun: What it is: `event`, `state`.
  package static func parse(_ text: String, noun: String) throws(CommandError) -> JSONValue {
    let isJSON = text.first { !$0.isWhitespace }.map { "{\"[".contains($0) } ?? false
    guard isJSON else {
      guard isLabel(text) else { throw problem(text, "is neither a label nor JSON") }
      return .string(text)
    }
    guard let value = try? JSONValue(parsing: text.utf8) else {
      throw problem(text, "is not JSON")
    }
    guard let label = value.caseName, isLabel(label), value.caseMembers != nil else {
      throw problem(text, "is JSON, but no \(noun)")
    }
    return value
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
