import PipeRuntime

/// The latest states of a node that were seen while the screen was open.
package struct NodeHistory: Hashable, Sendable {
  /// A state with its cause, as far as known.
  package struct Entry: Hashable, Sendable {
    package var incarnation: UInt64
    package var version: UInt64
    /// Unit: nanoseconds since 1970.
    package var time: Int64?
    package var cause: String
    package var state: JSONValue?
    /// The event that caused the state; `nil` if only the state is known.
    package var event: JSONValue?
    /// The events that the step sent: `pipe 5: placed(id: 1)`.
    package var sent: [String] = []
    /// The number of states before it that were not reported.
    package var missed: UInt64 = 0

    /// Unique among the entries of a node.
    package var name: String { "\(incarnation).\(version)" }
  }

  /// The maximum number of entries.
  package static let limit = 200

  /// The entries, oldest first.
  package private(set) var entries: [Entry] = []

  package init() {}

  /// Adds a state. It is ignored if a step has already reported it, because the step has more
  /// detail.
  package mutating func take(_ change: StateChange) {
    guard !change.isRepeated, !change.isIntermediate, isNew(change.incarnation, change.version)
    else {
      return
    }
    append(
      Entry(
        incarnation: change.incarnation, version: change.version, time: change.time,
        cause: change.cause, state: change.state, missed: change.missed))
  }

  /// Adds a step. It replaces the entry of the same state, if there is one.
  package mutating func take(_ step: NodeStep) {
    guard step.skipped == nil else { return }
    var entry = Entry(
      incarnation: step.incarnation, version: step.version, time: step.time,
      cause: step.source.map { "\($0.pipe) \($0.number)" } ?? step.cause ?? "?", state: step.state,
      event: step.event)
    entry.sent = (step.sent ?? []).map { "\($0.pipe) \($0.number): \($0.event?.caseText ?? "?")" }
    let existingIndex = entries.lastIndex {
      $0.incarnation == step.incarnation && $0.version == step.version
    }
    if let existingIndex {
      entry.missed = entries[existingIndex].missed
      entries[existingIndex] = entry
    } else if isNew(step.incarnation, step.version) {
      append(entry)
    } else if let insertionIndex = entries.firstIndex(where: {
      ($0.incarnation, $0.version) > (step.incarnation, step.version)
    }) {
      // The state that arrived first belongs to a later step.
      if entries[insertionIndex].missed > 0 { entries[insertionIndex].missed -= 1 }
      entries.insert(entry, at: insertionIndex)
    }
  }

  private func isNew(_ incarnation: UInt64, _ version: UInt64) -> Bool {
    entries.last.map { (incarnation, version) > ($0.incarnation, $0.version) } ?? true
  }

  private mutating func append(_ entry: Entry) {
    entries = entries.suffix(Self.limit - 1) + [entry]
  }
}

/// A node's recent rate of events per second, from the counts that it reports from time to time.
package struct NodeTrend: Hashable, Sendable {
  /// The count of events that a node reported at one time.
  package struct Sample: Hashable, Sendable {
    package var events: UInt64
    /// Unit: nanoseconds since 1970.
    package var time: Int64
    /// A new process of the node counts from 0 again.
    package var incarnation: UInt64

    package init(events: UInt64, time: Int64, incarnation: UInt64) {
      self.events = events
      self.time = time
      self.incarnation = incarnation
    }
  }

  /// The maximum number of rates.
  package static let maximumRateCount = 6
  /// The shortest time over which a rate is computed. Unit: nanoseconds.
  private static let interval: Int64 = 900_000_000

  private var last: Sample?
  /// Unit: events per second; the latest rate is last.
  package private(set) var rates: [Double] = []

  package init() {}

  /// Adds a reading. A reading older than the last one is ignored.
  package mutating func take(_ sample: Sample) {
    guard let before = last, before.incarnation == sample.incarnation else {
      last = sample
      return
    }
    guard sample.time >= before.time + Self.interval, sample.events >= before.events else {
      return
    }
    last = sample
    let seconds = Double(sample.time - before.time) / 1e9
    rates =
      rates.suffix(Self.maximumRateCount - 1) + [Double(sample.events - before.events) / seconds]
  }

  /// The latest rate; `nil` if there is none yet.
  package var rate: Double? { rates.last }

  /// A bar for each rate, scaled to the highest rate.
  package var bars: String {
    let highest = rates.max() ?? 0
    return String(
      rates.map { rate -> Character in
        guard rate > 0 else { return "·" }
        return Self.bars[min(Int(rate / highest * Double(Self.bars.count)), Self.bars.count - 1)]
      })
  }

  private static let bars: [Character] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]

  /// Formats a rate in at most five columns: `0`, `12`, `1.2k`, `350k`.
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
