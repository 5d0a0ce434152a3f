/// Leaves out what the orchestrator's own log repeats: whatever it notes of a node stands in the node's log, too.
///
/// The node's is written first, but a look may come between the two, or read the node's log before and the other
/// behind: so a note is remembered for one look more, and a repetition that is not known for one waits as long.
package struct RepeatedNotes {
  /// The log of the orchestrator, which is read like a node's.
  private static let orchestrator = "orchestrator"

  /// As the orchestrator words them: how often each was noted, and is not repeated yet.
  private var notes: [String: Int] = [:]
  private var earlierNotes: [String: Int] = [:]
  private var held: [LogEntry] = []

  package init() {}

  /// The entries of a look without repetitions; with those of the look before that turned out to be none.
  package mutating func without(_ entries: [LogEntry]) -> [LogEntry] {
    earlierNotes = notes
    notes = [:]
    for entry in entries where entry.stream == .note && entry.node != Self.orchestrator {
      notes["\(entry.node): \(entry.text)", default: 0] += 1
    }
    let late = held.filter { !takes($0.text) }
    held = []
    return late
      + entries.filter { entry in
        guard entry.node == Self.orchestrator, entry.stream == .note else { return true }
        if takes(entry.text) { return false }
        // What is of no node, as how the topology goes, is repeated nowhere; it may wait all the same.
        held.append(entry)
        return false
      }
  }

  private mutating func takes(_ text: String) -> Bool {
    if let count = earlierNotes[text], count > 0 {
      earlierNotes[text] = count - 1
      return true
    }
    guard let count = notes[text], count > 0 else { return false }
    notes[text] = count - 1
    return true
  }
}
