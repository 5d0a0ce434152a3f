import PipeMachines
import PipeSupport

/// The memory of an inspector: the events and log lines of a topology, as far back as capacity
/// allows, and the current values. Any number of clients read it at their own pace.
///
/// Every addition has a number, and numbers only grow. A client remembers the last number that it
/// has seen, and receives everything with a higher number. So a slow or stopped client costs
/// nothing.
package struct InspectionHistory: Sendable {
  /// A value that is current until it is replaced.
  private struct CurrentValue {
    var number: UInt64
    var json: [UInt8]
  }

  private var events: InspectionRing
  /// Log lines have their own capacity, so that a node that writes much displaces no steps.
  private var logLines: InspectionRing
  /// The current values, by name.
  private var currentValues: [String: CurrentValue] = [:]
  /// The number of the latest addition.
  package private(set) var last: UInt64
  /// The number before the first addition.
  private let origin: UInt64

  /// The maximum size of an entry. Unit: bytes.
  package static let entryByteCount = 64 << 10

  /// - Parameters:
  ///   - capacity: The capacity for events. Unit: bytes.
  ///   - logCapacity: The capacity for log lines. Unit: bytes.
  ///   - origin: The number before the first addition. It lets clients of another inspector's
  ///     history notice the change.
  package init(capacity: Int = 64 << 20, logCapacity: Int = 8 << 20, origin: UInt64 = 0) {
    events = InspectionRing(capacity: capacity)
    logLines = InspectionRing(capacity: logCapacity)
    self.origin = origin
    last = origin
  }

  /// Adds an event, as JSON.
  /// - Returns: `false` if it exceeds the maximum size of an entry.
  @discardableResult
  package mutating func append(_ json: [UInt8]) -> Bool {
    guard json.count <= Self.entryByteCount else { return false }
    last += 1
    events.append(json, number: last)
    return true
  }

  /// Adds a log line, as JSON.
  /// - Returns: `false` if it exceeds the maximum size of an entry.
  @discardableResult
  package mutating func appendLog(_ json: [UInt8]) -> Bool {
    guard json.count <= Self.entryByteCount else { return false }
    last += 1
    logLines.append(json, number: last)
    return true
  }

  /// Sets a current value, as JSON. An equal value changes nothing.
  package mutating func set(_ name: String, _ json: [UInt8]) {
    guard currentValues[name]?.json != json else { return }
    last += 1
    currentValues[name] = CurrentValue(number: last, json: json)
  }

  /// Removes all current values except those with these names.
  package mutating func keep(only names: Set<String>) {
    currentValues = currentValues.filter { names.contains($0.key) }
  }

  /// The number of events in memory.
  package var count: Int { events.count }
  /// The number of log lines in memory.
  package var logCount: Int { logLines.count }
  /// The number of events that were dropped for lack of capacity.
  package var droppedCount: UInt64 { events.droppedCount }

  /// Returns the additions that a client has not seen: the values that have changed, and the latest
  /// events and log lines that fit into the limit.
  /// - Parameters:
  ///   - cursor: The last number that the client has seen; 0 if it has seen nothing.
  ///   - limit: The limit for events, and again for log lines. Unit: bytes.
  package func delta(after cursor: UInt64, limit: Int) -> InspectionDelta {
    let isKnown = cursor >= origin && cursor <= last && cursor != 0
    let seen = isKnown ? cursor : origin
    var delta = InspectionDelta(cursor: last, replacesAll: !isKnown)
    delta.currentValues = currentValues.values.filter { $0.number > seen }
      .sorted { $0.number < $1.number }.map(\.json)
    (delta.events, delta.skipped) = events.latest(after: seen, limit: limit)
    (delta.logLines, delta.skippedLogLines) = logLines.latest(after: seen, limit: limit)
    return delta
  }
}

/// Entries in order of arrival. The oldest ones are dropped when a new one needs the capacity.
struct InspectionRing: Sendable {
  private struct Entry {
    var number: UInt64
    var json: [UInt8]
  }

  private var entries: [Entry] = []
  /// The index of the first entry that is not dropped.
  private var first = 0
  private var byteCount = 0
  private let capacity: Int
  /// The number of entries that were dropped for lack of capacity.
  private(set) var droppedCount: UInt64 = 0

  /// The memory that an entry takes in addition to its JSON. Unit: bytes.
  private static let overhead = 64

  /// - Parameter capacity: The capacity for all entries. Unit: bytes.
  init(capacity: Int) { self.capacity = capacity }

  /// The number of entries.
  var count: Int { entries.count - first }

  /// - Parameter number: A number higher than all before.
  mutating func append(_ json: [UInt8], number: UInt64) {
    entries.append(Entry(number: number, json: json))
    byteCount += json.count + Self.overhead
    while byteCount > capacity, first < entries.count {
      byteCount -= entries[first].json.count + Self.overhead
      entries[first].json = []
      first += 1
      droppedCount += 1
    }
    // Only now and then, so that each entry is moved about once on average.
    if first > 1_024, first > entries.count / 2 {
      entries.removeFirst(first)
      first = 0
    }
  }

  /// Returns the latest entries above a number that fit into the limit, and the count of the other
  /// entries above it.
  /// - Parameter limit: Unit: bytes.
  func latest(after seen: UInt64, limit: Int) -> (parts: [[UInt8]], skipped: UInt64) {
    var capacity = limit
    var index = entries.count
    while index > first, entries[index - 1].number > seen {
      capacity -= entries[index - 1].json.count
      if capacity < 0 { break }
      index -= 1
    }
    // Counts the earlier unseen entries. Numbers are not consecutive, because other additions have
    // numbers, too.
    var earlier = index
    while earlier > first, entries[earlier - 1].number > seen { earlier -= 1 }
    return (entries[index...].map(\.json), UInt64(index - earlier))
  }
}

/// The answer to a client of a history.
package struct InspectionDelta: Hashable, Sendable {
  /// The cursor for the client's next request.
  package var cursor: UInt64
  /// The time of the answer, by the clock of the steps' times, which may differ from a browser's.
  /// Unit: nanoseconds since 1970.
  package var time: Int64 = 0
  /// Whether the client must discard its data, which came from another history.
  package var replacesAll: Bool
  /// The changed current values, in order of change.
  package var currentValues: [[UInt8]] = []
  /// The events, in order.
  package var events: [[UInt8]] = []
  /// The number of earlier events that are left out.
  package var skipped: UInt64 = 0
  /// The log lines, in order.
  package var logLines: [[UInt8]] = []
  /// The number of earlier log lines that are left out.
  package var skippedLogLines: UInt64 = 0

  init(cursor: UInt64, replacesAll: Bool) {
    self.cursor = cursor
    self.replacesAll = replacesAll
  }

  /// The JSON form for sending.
  package var json: [UInt8] {
    var json = Array(
      """
      {"cursor":"\(cursor)","time":\(time),"whole":\(replacesAll),"skipped":\(skipped),"unwritten":\(skippedLogLines)
      """.utf8)
    Self.append("standing", currentValues, to: &json)
    Self.append("happened", events, to: &json)
    Self.append("written", logLines, to: &json)
    json.append(UInt8(ascii: "}"))
    return json
  }

  private static func append(_ name: StaticString, _ parts: [[UInt8]], to json: inout [UInt8]) {
    json += ",\"\(name)\":[".utf8
    for (index, part) in parts.enumerated() {
      if index > 0 { json.append(UInt8(ascii: ",")) }
      json += part
    }
    json.append(UInt8(ascii: "]"))
  }
}

/// A thread-safe history: one thread writes while others read.
package final class InspectionRecorder: Sendable {
  private let history: Locked<InspectionHistory>

  /// The pause between two checks for news, which limits how often a client receives an answer.
  private static let checkInterval: Duration = .milliseconds(100)

  /// - Parameter capacity: The capacity for events. Unit: bytes.
  package init(capacity: Int = 64 << 20) {
    // A random origin distinguishes this history's numbers from the numbers of another history. The numbers
    // stay below 2^53, so that JavaScript reads them exactly.
    let origin = UInt64.random(in: 1...(1 << 40)) << 12
    history = Locked(InspectionHistory(capacity: capacity, origin: origin))
  }

  /// Adds an event.
  /// - Returns: `false` if it is too large.
  @discardableResult
  package func append(_ json: [UInt8]) -> Bool { history.withLock { $0.append(json) } }

  package func append(_ record: JSONValue) { append(record.bytes) }

  /// Adds log lines.
  package func appendLog(_ records: [JSONValue]) {
    let lines = records.map(\.bytes)
    history.withLock { for line in lines { $0.appendLog(line) } }
  }

  /// Sets a current value.
  package func set(_ name: String, _ record: JSONValue) {
    let json = record.bytes
    history.withLock { $0.set(name, json) }
  }

  /// Removes all current values except those with these names.
  package func keep(only names: Set<String>) { history.withLock { $0.keep(only: names) } }

  /// Returns what a client has not seen, with the current time. Waits if there is nothing new.
  /// - Parameters:
  ///   - cursor: The last number that the client has seen.
  ///   - timeout: The longest time to wait.
  ///   - limit: The limit for events. Unit: bytes.
  package func nextDelta(
    after cursor: UInt64, within timeout: Duration, limit: Int
  ) async -> InspectionDelta {
    let deadline = ContinuousClock.now + timeout
    repeat {
      // Waits before the first check, too, so that news is delivered in batches.
      try? await Task.sleep(for: Self.checkInterval)
      if history.withLock({ $0.last != cursor }) { break }
    } while ContinuousClock.now < deadline && !Task.isCancelled
    var delta = history.withLock { $0.delta(after: cursor, limit: limit) }
    delta.time = WallClock.nanoseconds
    return delta
  }
}
