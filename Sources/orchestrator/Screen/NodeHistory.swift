import PipeRuntime

/// The states that a node has been in while somebody looked, the last ones of them.
package struct NodeHistory: Hashable, Sendable {
  /// A state, and what led to it as far as it was told.
  package struct Entry: Hashable, Sendable {
    package var incarnation: UInt64
    package var version: UInt64
    /// Unit: nanoseconds since 1970.
    package var time: Int64?
    package var cause: String
    package var state: JSONValue?
    /// The event that led to it; `nil` where only the state was told.
    package var event: JSONValue?
    /// What the step has sent: `pipe 5: placed(id: 1)`.
    package var sent: [String] = []
    /// The states before it that were not told.
    package var missed: UInt64 = 0

    /// Unique among the entries of a node.
    package var name: String { "\(incarnation).\(version)" }
  }

  /// The entries that are kept.
  package static let limit = 200

  /// The latest one last.
  package private(set) var entries: [Entry] = []

  package init() {}

  /// Takes a state. One that a step has told of already is known better.
  package mutating func take(_ change: StateChange) {
    guard !change.isRepeated, !change.isPassing, isNew(change.incarnation, change.version) else {
      return
    }
    append(
      Entry(
        incarnation: change.incarnation, version: change.version, time: change.time,
        cause: change.cause, state: change.state, missed: change.missed))
  }

  /// Takes a step, with which the same state may have been told before.
  package mutating func take(_ step: NodeStep) {
    guard step.skipped == nil else { return }
    var entry = Entry(
      incarnation: step.incarnation, version: step.version, time: step.time,
      cause: step.source.map { "\($0.pipe) \($0.number)" } ?? step.cause ?? "?", state: step.state,
      event: step.event)
    entry.sent = (step.sent ?? []).map { "\($0.pipe) \($0.number): \($0.event?.caseText ?? "?")" }
    let same = entries.lastIndex {
      $0.incarnation == step.incarnation && $0.version == step.version
    }
    if let same {
      entry.missed = entries[same].missed
      entries[same] = entry
    } else if isNew(step.incarnation, step.version) {
      append(entry)
    } else if let place = entries.firstIndex(where: {
      ($0.incarnation, $0.version) > (step.incarnation, step.version)
    }) {
      // The state that came first was of a later step.
      if entries[place].missed > 0 { entries[place].missed -= 1 }
      entries.insert(entry, at: place)
    }
  }

  private func isNew(_ incarnation: UInt64, _ version: UInt64) -> Bool {
    entries.last.map { (incarnation, version) > ($0.incarnation, $0.version) } ?? true
  }

  private mutating func append(_ entry: Entry) {
    entries = entries.suffix(Self.limit - 1) + [entry]
  }
}
