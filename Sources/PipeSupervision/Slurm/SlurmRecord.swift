/// A line of `scontrol -o show`: words `NAME=VALUE`.
struct SlurmRecord {
  private let values: [Substring: Substring]

  init(_ line: String) {
    var values: [Substring: Substring] = [:]
    for word in line.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      guard let sign = word.firstIndex(of: "=") else { continue }
      // Of values with spaces the first word alone is kept; nobody asks for those.
      let name = word[..<sign]
      if values[name] == nil { values[name] = word[word.index(after: sign)...] }
    }
    self.values = values
  }

  subscript(name: String) -> String? { values[name[...]].map { String($0) } }
}
