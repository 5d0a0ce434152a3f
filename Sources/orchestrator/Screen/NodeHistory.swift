import PipeRuntime

/// The latest states that a node has reported while the screen was shown.
package struct NodeHistory: Hashable, Sendable {
  /// A state, with its cause and event if they are known.
  package struct Entry: Hashable, Sendable {
    package var incarnation: UInt64
    /// The name of the instance, such as `orders[4711]`; `nil` for a state of the node itself.
    package var instance: String?
    package var version: UInt64
    /// The time of the state. Unit: nanoseconds since 1970.
    package var time: Int64?
    package var cause: String
    package var state: JSONValue?
    /// The event that caused the state; `nil` if it is unknown.
    package var event: JSONValue?
    /// The events that the step has sent, each as text such as `pipe 5: placed(id: 1)`.
    package var sentEvents: [String] = []
    /// The number of states between the previous entry and this state that were not reported.
    package var missedCount: UInt64 = 0

    /// The identifier of the entry. It is unique among the entries of a node.
    package var identifier: String { "\(incarnation).\(instance.map { $0 + "." } ?? "")\(version)" }
  }

  /// The maximum number of entries.
  package static let maximumEntryCount = 200

  /// The entries, oldest first.
  package private(set) var entries: [Entry] = []

  package init() {}

  /// Adds a state, unless the step that leads to this state was already added: the step has more
  /// details.
  package mutating func take(_ change: StateChange) {
    // If the last entry is a step of an instance, states of the node are not added: they contain
    // only the number of instances in each state.
    guard !change.isRepeated, !change.isIntermediate, entries.last?.instance == nil,
      isNew(change.incarnation, change.version)
    else {
      return
    }
    append(
      Entry(
        incarnation: change.incarnation, version: change.version, time: change.time,
        cause: change.cause, state: change.state, missedCount: change.missedCount))
  }

  /// Adds a step. If there is an entry for the state after this step, replaces the entry.
  package mutating func take(_ step: NodeStep) {
    guard step.skipped == nil else { return }
    var entry = Entry(
      incarnation: step.incarnation, version: step.version, time: step.time,
      cause: step.source.map { "\($0.pipe) \($0.number)" } ?? step.cause ?? "?", state: step.state,
      event: step.event)
    entry.sentEvents = (step.sent ?? []).map {
      "\($0.pipe) \($0.number): \($0.event?.caseText ?? "?")"
    }
    entry.instance = step.instance
    guard step.instance == nil else {
      if !entries.contains(where: { $0.identifier == entry.identifier }) { append(entry) }
      return
    }
    let existingIndex = entries.lastIndex {
      $0.incarnation == step.incarnation && $0.version == step.version
    }
    if let existingIndex {
      entry.missedCount = entries[existingIndex].missedCount
      entries[existingIndex] = entry
    } else if isNew(step.incarnation, step.version) {
      append(entry)
    } else if let insertionIndex = entries.firstIndex(where: {
      ($0.incarnation, $0.version) > (step.incarnation, step.version)
    }) {
      // A later state has arrived before this step, so this step was counted as missed.
      if entries[insertionIndex].missedCount > 0 { entries[insertionIndex].missedCount -= 1 }
      entries.insert(entry, at: insertionIndex)
    }
  }

  private func isNew(_ incarnation: UInt64, _ version: UInt64) -> Bool {
    entries.last.map { (incarnation, version) > ($0.incarnation, $0.version) } ?? true
  }

  private mutating func append(_ entry: Entry) {
    entries = entries.suffix(Self.maximumEntryCount - 1) + [entry]
  }
}

/// The recent rates of a node's events. The rates are computed from counts that the node reports at
/// intervals.
package struct NodeTrend: Hashable, Sendable {
  /// The number of events according to one report of a node.
  package struct Sample: Hashable, Sendable {
    package var eventCount: UInt64
    /// The time of the report. Unit: nanoseconds since 1970.
    package var time: Int64
    /// The incarnation of the node. Each incarnation counts its events from 0.
    package var incarnation: UInt64

    package init(events: UInt64, time: Int64, incarnation: UInt64) {
      self.eventCount = events
      self.time = time
      self.incarnation = incarnation
    }
  }

  /// The maximum number of rates.
  package static let maximumRateCount = 6
  /// The minimum time over which a rate is computed. Unit: nanoseconds.
  private static let minimumInterval: Int64 = 900_000_000

  private var lastSample: Sample?
  /// The rates in events per second, the latest rate last.
  package private(set) var rates: [Double] = []

  package init() {}

  /// Adds a sample. Ignores a sample that is older than the last sample, or less than 0.9 s newer.
  package mutating func take(_ sample: Sample) {
    guard let before = lastSample, before.incarnation == sample.incarnation else {
      lastSample = sample
      return
    }
    guard sample.time >= before.time + Self.minimumInterval, sample.eventCount >= before.eventCount
    else {
      return
    }
    lastSample = sample
    let seconds = Double(sample.time - before.time) / 1e9
    rates =
      rates.suffix(Self.maximumRateCount - 1) + [
        Double(sample.eventCount - before.eventCount) / seconds
      ]
  }

  /// The latest rate; `nil` if there is none yet.
  package var rate: Double? { rates.last }

  /// A bar for each rate. The highest rate has the highest bar.
  package var barText: String {
    let highest = rates.max() ?? 0
    return String(
      rates.map { rate -> Character in
        guard rate > 0 else { return "·" }
        return Self.barCharacters[
          min(Int(rate / highest * Double(Self.barCharacters.count)), Self.barCharacters.count - 1)]
      })
  }

  private static let barCharacters: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

  /// Formats a rate in at most five columns, such as `0`, `12`, `1.2k` or `350k`.
  package static func text(_ rate: Double?) -> String {
    guard let rate else { return "-" }
    if rate < 10, rate != rate.rounded() {
      let tenths = Int((rate * 10).rounded())
      return "\(tenths / 10).\(tenths % 10)"
    }
    var (value, unit) = (rate, "")
    for next in ["k", "M", "G"] where value >= 1_000 { (value, unit) = (value / 1_000, next) }
    guard !unit.isEmpty, value < 10 else { return "\(Int(value.rounded()))\(unit)" }
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)\(unit)"
  }
}
