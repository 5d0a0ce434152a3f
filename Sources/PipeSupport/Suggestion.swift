/// The common wording of error messages that list possible choices.
package enum Suggestion {
  /// Returns the end of an error message: `; it has 'a', 'b'. Did you mean 'a'?`. The hint is
  /// omitted if no choice is similar to the name.
  /// - Parameter limit: The maximum number of choices to list.
  package static func among(
    _ choices: some Sequence<String>, like name: String, verb: String = "it has",
    limit: Int = 10
  )
    -> String
  {
    var all: [String] = []
    for choice in choices where !all.contains(choice) { all.append(choice) }
    guard !all.isEmpty else { return "; \(verb) none" }
    let shown = all.prefix(limit).map { "'\($0)'" }.joined(separator: ", ")
    let rest = all.count > limit ? " and \(all.count - limit) more" : ""
    return "; \(verb) \(shown)\(rest)\(hint(for: name, among: all))"
  }

  /// Returns `. Did you mean 'a'?`, or an empty text if no choice is similar to the name.
  package static func hint(for name: String, among choices: [String]) -> String {
    hint(closest(to: name, among: choices))
  }

  /// Returns `. Did you mean 'a'?` for the choice `a`, or an empty text for `nil`.
  package static func hint(_ choice: String?) -> String {
    choice.map { ". Did you mean '\($0)'?" } ?? ""
  }

  /// Returns the choice that the user probably meant: a choice that begins with the name, or that
  /// differs from the name by few typing errors. Returns `nil` if there is no such choice.
  package static func closest(to name: String, among choices: [String]) -> String? {
    let name = name.lowercased()
    let limit = min(3, name.count / 3)
    let best = choices.map { choice in
      let lowercasedChoice = choice.lowercased()
      let isPrefix = name.count > 1 && lowercasedChoice.hasPrefix(name)
      return (isPrefix ? 0 : distance(name, lowercasedChoice), choice)
    }.min { $0.0 < $1.0 }
    return best.flatMap { $0.0 <= limit ? $0.1 : nil }
  }

  /// Returns the least number of edits that turn one word into the other. An edit is an insertion,
  /// a deletion, a replacement, or a swap of adjacent characters.
  static func distance(_ left: String, _ right: String) -> Int {
    // Compares only the first 64 bytes: names are short, so a longer text is not a misspelled name.
    let a = Array(left.utf8.prefix(64))
    let b = Array(right.utf8.prefix(64))
    var rows = [Array(0...b.count)]
    for i in 1..<(a.count + 1) {
      var row = [i] + Array(repeating: 0, count: b.count)
      for j in 1..<(b.count + 1) {
        row[j] = min(
          rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
        if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
          row[j] = min(row[j], rows[i - 2][j - 2] + 1)
        }
      }
      rows.append(row)
    }
    return rows[a.count][b.count]
  }
}

/// Whether a text can be a Swift identifier. The check is simpler than Swift's grammar.
package func isIdentifier(_ text: some StringProtocol) -> Bool {
  guard let first = text.unicodeScalars.first, isIdentifierHead(first) else { return false }
  return text.unicodeScalars.allSatisfy { isIdentifierHead($0) || ("0"..."9").contains($0) }
}

private func isIdentifierHead(_ scalar: Unicode.Scalar) -> Bool {
  scalar == "_" || scalar.properties.isAlphabetic || scalar.value > 0x2000
}

/// Whether a text can be the name of an environment variable.
package func isVariableName(_ text: String) -> Bool {
  isIdentifier(text) && text.utf8.allSatisfy { $0 < 0x80 }
}

/// Whether a name is safe as a file name. A safe name has up to 64 characters: ASCII letters,
/// digits, `_`, `-`, and dots after the first character.
package func isSafeName(_ name: String) -> Bool {
  !name.isEmpty && name.utf8.count <= 64 && name.utf8.first != UInt8(ascii: ".")
    && name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."),
        UInt8(ascii: "-"):
        true
      default: false
      }
    }
}
