/// What a suite was to see and what it has seen: which of that is a failure, in words.
struct CoverageAccount<Name: Hashable & CustomStringConvertible> {
  /// One thing that can be seen.
  struct Entry {
    var name: Name
    var isSeen: Bool
    /// Said of it where it is missing.
    var remark = ""
  }

  /// How they are called.
  struct Words {
    /// `transitions`
    var things: String
    /// `taken`
    var seen: String
    /// `transition of the machine`
    var thingOfOwner: String
    /// What to do about those that are missing.
    var advice: String
    /// What to do where nothing was to be seen.
    var adviceWithoutAny: String
  }

  var entries: [Entry]
  /// What was seen, and is nothing of what was to be seen.
  var others: [Name] = []
  var words: Words

  /// What is wrong; nothing where the account is complete.
  func problems(except exceptions: [Name]) -> [String] {
    guard !entries.isEmpty else {
      return ["there are no \(words.things) to be \(words.seen)", "  \(words.adviceWithoutAny)"]
    }
    let missing = entries.filter { !$0.isSeen && !exceptions.contains($0.name) }
    var lines: [String] = []
    if !missing.isEmpty {
      lines.append("\(missing.count) of \(entries.count) \(words.things) were not \(words.seen):")
      lines += missing.map { "  \($0.name)\($0.remark)" }
      lines.append("  \(words.advice)")
    }
    lines += listed(
      exceptions.filter { name in !entries.contains { $0.name == name } },
      "'except:' names what is no \(words.thingOfOwner):")
    lines += listed(
      entries.filter { $0.isSeen && exceptions.contains($0.name) }.map(\.name),
      "'except:' names what was \(words.seen):")
    lines += listed(others, "'expecting:' lacks what was \(words.seen):")
    return lines
  }

  private func listed(_ names: [Name], _ title: String) -> [String] {
    names.isEmpty ? [] : [title] + names.map { "  \($0)" }
  }
}
