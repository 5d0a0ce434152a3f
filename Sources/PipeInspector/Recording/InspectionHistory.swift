import PipeMachines
import PipeSupport

/// The data of a topology that an inspector keeps in memory: current values, and as many past
/// events and log lines as the capacity allows. Any number of clients can read this data.
///
/// Every addition to the history gets a number that is higher than all earlier numbers. A client
/// remembers the last number that it has received, and requests the additions with higher numbers.
/// So the history stores nothing for each client, even if clients are slow.
package struct InspectionHistory: Sendable {
  /// A value that stays current until another value replaces it.
  private struct CurrentValue {
    var number: UInt64
    var json: [UInt8]
  }

  private var events: InspectionRing
  /// The log lines have their own capacity, so that nodes that write many lines do not displace
  /// steps.
  private var logLines: InspectionRing
  /// The current values, by name.
  private var currentValues: [String: CurrentValue] = [:]
  /// The number of the latest addition.
  package private(set) var lastNumber: UInt64
  /// The number before the first addition of this history.
  private let origin: UInt64

  /// The maximum size of an entry. Unit: bytes.
  package static let entryByteCount = 64 << 10

  /// - Parameters:
  ///   - capacity: The capacity for events. Unit: bytes.
  ///   - logCapacity: The capacity for log lines. Unit: bytes.
  ///   - origin: The number before the first addition. Different histories have different origins,
  ///     so that a client notices when its data comes from another history.
  package init(capacity: Int = 64 << 20, logCapacity: Int = 8 << 20, origin: UInt64 = 0) {
    events = InspectionRing(capacity: capacity)
    logLines = InspectionRing(capacity: logCapacity)
    self.origin = origin
    lastNumber = origin
  }

  /// Adds an event, as JSON.
  /// - Returns: Whether the event was added; `false` if it exceeds the maximum size of an entry.
  @discardableResult
  package mutating func append(_ json: [UInt8]) -> Bool {
    guard json.count <= Self.entryByteCount else { return false }
    lastNumber += 1
    events.append(json, number: lastNumber)
    return true
  }

  /// Adds a log line, as JSON.
  /// - Returns: Whether the line was added; `false` if it exceeds the maximum size of an entry.
  @discardableResult
  package mutating func appendLog(_ json: [UInt8]) -> Bool {
    guard json.count <= Self.entryByteCount else { return false }
    lastNumber += 1
    logLines.append(json, number: lastNumber)
    return true
  }

  /// Sets a current value, as JSON. If the value is equal to the present value, nothing is added.
  package mutating func set(_ name: String, _ json: [UInt8]) {
    guard currentValues[name]?.json != json else { return }
    lastNumber += 1
    currentValues[name] = CurrentValue(number: lastNumber, json: json)
  }

  /// Removes all current values except the values with the given names.
  package mutating func keep(only names: Set<String>) {
    currentValues = currentValues.filter { names.contains($0.key) }
  }

  /// The number of events in memory.
  package var eventCount: Int { events.count }
  /// The number of log lines in memory.
  package var logCount: Int { logLines.count }
  /// The number of events that were dropped because the capacity was exceeded.
  package var droppedCount: UInt64 { events.droppedCount }

  /// Returns the additions that a client has not received: the current values that have changed,
  /// and the latest events and log lines, up to a limit.
  /// - Parameters:
  ///   - cursor: The last number that the client has received; 0 for a new client.
  ///   - limit: The maximum size of the events; the same maximum applies to the log lines. Unit:
  ///     bytes.
  package func delta(after cursor: UInt64, limit: Int) -> InspectionDelta {
    let isKnown = cursor >= origin && cursor <= lastNumber && cursor != 0
    let seen = isKnown ? cursor : origin
    var delta = InspectionDelta(cursor: lastNumber, replacesAll: !isKnown)
    delta.currentValues = currentValues.values.filter { $0.number > seen }
      .sorted { $0.number < $1.number }.map(\.json)
    (delta.events, delta.skippedEventCount) = events.latest(after: seen, limit: limit)
    (delta.logLines, delta.skippedLogLines) = logLines.latest(after: seen, limit: limit)
    return delta
  }
}

/// A ring buffer of entries, in order of arrival. New entries displace the oldest entries.
struct InspectionRing: Sendable {
  private struct Entry {
    var number: UInt64
    var json: [UInt8]
  }

  private var entries: [Entry] = []
  /// The index of the oldest entry that has not been dropped.
  private var first = 0
  private var byteCount = 0
  private let capacity: Int
  /// The number of entries that were dropped because the capacity was exceeded.
  private(set) var droppedCount: UInt64 = 0

  /// The estimated memory that an entry needs in addition to its JSON. Unit: bytes.
  private static let overhead = 64

  /// - Parameter capacity: The capacity for all entries. Unit: bytes.
  init(capacity: Int) { self.capacity = capacity }

  /// The number of entries.
  var count: Int { entries.count - first }

  /// Appends an entry, and drops the oldest entries if the capacity is exceeded.
  /// - Parameter number: The entry's number, which must be higher than all earlier numbers.
  mutating func append(_ json: [UInt8], number: UInt64) {
    entries.append(Entry(number: number, json: json))
    byteCount += json.count + Self.overhead
    while byteCount > capacity, first < entries.count {
      byteCount -= entries[first].json.count + Self.overhead
      entries[first].json = []
      first += 1
      droppedCount += 1
    }
    // Removes dropped entries from the array only occasionally, so that each entry is moved about
    // once on average.
    if first > 1_024, first > entries.count / 2 {
      entries.removeFirst(first)
      first = 0
    }
  }

  /// Returns the latest entries whose numbers are higher than `seen`, up to a limit, and how many
  /// such entries the limit omits.
  /// - Parameters:
  ///   - seen: The number of the last entry that the client has received.
  ///   - limit: The maximum size of the returned entries. Unit: bytes.
  func latest(after seen: UInt64, limit: Int) -> (parts: [[UInt8]], skipped: UInt64) {
    var capacity = limit
    var index = entries.count
    while index > first, entries[index - 1].number > seen {
      capacity -= entries[index - 1].json.count
      if capacity < 0 { break }
      index -= 1
    }
    // Counts the earlier entries that the client has not received. The numbers cannot be
    // subtracted, since they are not consecutive: other additions have numbers, too.
    var earlier = index
    while earlier > first, entries[earlier - 1].number > seen { earlier -= 1 }
    return (entries[index...].map(\.json), UInt64(index - earlier))
  }
}

/// The part of a history that one answer to a client contains.
package struct InspectionDelta: Hashable, Sendable {
  /// The cursor that the client must send in its next request.
  package var cursor: UInt64
  /// The time of the answer, on the clock of the inspector's host. The nodes on this host use the
  /// same clock, but a browser's clock may differ. Unit: nanoseconds since 1970.
  package var time: Int64 = 0
  /// Whether the client must discard its data, because that data came from another history.
  package var replacesAll: Bool
  /// The current values that have changed, in order of change.
  package var currentValues: [[UInt8]] = []
  /// The events, in order.
  package var events: [[UInt8]] = []
  /// The number of earlier events that this answer omits.
  package var skippedEventCount: UInt64 = 0
  /// The log lines, in order.
  package var logLines: [[UInt8]] = []
  /// The number of earlier log lines that this answer omits.
  package var skippedLogLines: UInt64 = 0

  init(cursor: UInt64, replacesAll: Bool) {
    self.cursor = cursor
    self.replacesAll = replacesAll
  }

  /// The JSON text to send to the client.
  package var json: [UInt8] {
    var json = Array(
      """
      {"cursor":"\(cursor)","time":\(time),"whole":\(replacesAll),"skipped":\(skippedEventCount),"unwritten":\(skippedLogLines)
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

/// A thread-safe history. One thread adds data, and other threads read it.
package final class InspectionRecorder: Sendable {
  private let history: Locked<InspectionHistory>

  /// The pause between two checks for additions. The pause limits how frequently a client receives
  /// an answer.
  private static let checkInterval: Duration = .milliseconds(100)

  /// - Parameter capacity: The capacity for events. Unit: bytes.
  package init(capacity: Int = 64 << 20) {
    // A random origin distinguishes this history from other histories. The numbers stay below 2^53,
    // so that JavaScript represents them exactly.
    let origin = UInt64.random(in: 1...(1 << 40)) << 12
    history = Locked(InspectionHistory(capacity: capacity, origin: origin))
  }

  /// Adds an event, as JSON.
  /// - Returns: Whether the event was added; `false` if the event is too large.
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

  /// Removes all current values except the values with the given names.
  package func keep(only names: Set<String>) { history.withLock { $0.keep(only: names) } }

  /// Waits until there are additions that a client has not received. Returns them, with the current
  /// time.
  /// - Parameters:
  ///   - cursor: The last number that the client has received.
  ///   - timeout: The maximum time to wait.
  ///   - limit: The maximum size of the events. Unit: bytes.
  package func nextDelta(
    after cursor: UInt64, within timeout: Duration, limit: Int
  ) async -> InspectionDelta {
    let deadline = ContinuousClock.now + timeout
    repeat {
      // Also waits before the first check, so that a client receives several additions in one
      // answer.
      try? await Task.sleep(for: Self.checkInterval)
      if history.withLock({ $0.lastNumber != cursor }) { break }
    } while ContinuousClock.now < deadline && !Task.isCancelled
    var delta = history.withLock { $0.delta(after: cursor, limit: limit) }
    delta.time = WallClock.nanoseconds
    return delta
  }
}
