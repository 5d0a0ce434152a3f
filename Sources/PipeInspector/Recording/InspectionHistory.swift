import PipeMachines
import PipeSupport

/// What has happened in a topology and what its logs have, as far back as there is room, and how all stands now:
/// the memory of an inspector, which any number of clients read at their own pace.
///
/// Everything that is taken has a number, and numbers only grow. A client keeps the last one that it has
/// seen; what it has not seen is what has a higher one. So a client that reads slowly, or no more, costs nothing.
package struct InspectionHistory: Sendable {
  /// What stands until it changes.
  private struct Standing {
    var number: UInt64
    var json: [UInt8]
  }

  private var happened: InspectionRing
  /// Lines of logs have room of their own: who writes much takes none from the steps.
  private var written: InspectionRing
  /// By name.
  private var standing: [String: Standing] = [:]
  /// The number that was given last.
  package private(set) var last: UInt64
  /// The number before the first.
  private let origin: UInt64

  /// The largest entry. Unit: bytes.
  package static let entryByteCount = 64 << 10

  /// - Parameters:
  ///   - room: For what has happened. Unit: bytes.
  ///   - logRoom: For what was written into logs. Unit: bytes.
  ///   - origin: The number before the first: a client of another inspector's history is to see that.
  package init(room: Int = 64 << 20, logRoom: Int = 8 << 20, origin: UInt64 = 0) {
    happened = InspectionRing(room: room)
    written = InspectionRing(room: logRoom)
    self.origin = origin
    last = origin
  }

  /// Takes what has happened, as JSON.
  /// - Returns: `false` where it is larger than any entry may be.
  @discardableResult
  package mutating func append(_ json: [UInt8]) -> Bool {
    guard json.count <= Self.entryByteCount else { return false }
    last += 1
    happened.append(json, number: last)
    return true
  }

  /// Takes what was written into a log, as JSON.
  /// - Returns: `false` where it is larger than any entry may be.
  @discardableResult
  package mutating func write(_ json: [UInt8]) -> Bool {
    guard json.count <= Self.entryByteCount else { return false }
    last += 1
    written.append(json, number: last)
    return true
  }

  /// Takes how something stands now, as JSON; where it stands so already, nothing happens.
  package mutating func set(_ name: String, _ json: [UInt8]) {
    guard standing[name]?.json != json else { return }
    last += 1
    standing[name] = Standing(number: last, json: json)
  }

  /// Forgets how things stand whose names are not among these.
  package mutating func keep(only names: Set<String>) {
    standing = standing.filter { names.contains($0.key) }
  }

  /// The number of what has happened and is remembered. Unit: entries.
  package var count: Int { happened.count }
  /// The number of lines of logs that are remembered.
  package var logCount: Int { written.count }
  /// What has happened and was given up since there was no room for it. Unit: entries.
  package var forgotten: UInt64 { happened.forgotten }

  /// What a client has not seen: how all stands that has changed since, and what has happened, and was written, of
  /// which the latest is told that fits.
  /// - Parameters:
  ///   - cursor: The last number that it has seen; 0 where it has seen nothing.
  ///   - limit: For what has happened, and once more for what was written. Unit: bytes.
  package func delta(after cursor: UInt64, limit: Int) -> InspectionDelta {
    let isKnown = cursor >= origin && cursor <= last && cursor != 0
    let seen = isKnown ? cursor : origin
    var delta = InspectionDelta(cursor: last, isWhole: !isKnown)
    delta.standing = standing.values.filter { $0.number > seen }
      .sorted { $0.number < $1.number }.map(\.json)
    (delta.happened, delta.skipped) = happened.latest(after: seen, limit: limit)
    (delta.written, delta.unwritten) = written.latest(after: seen, limit: limit)
    return delta
  }
}

/// Entries in the order in which they came, of which the oldest go where there is no room for a new one.
struct InspectionRing: Sendable {
  private struct Entry {
    var number: UInt64
    var json: [UInt8]
  }

  private var entries: [Entry] = []
  /// Those before this place are gone.
  private var first = 0
  private var byteCount = 0
  private let room: Int
  /// What was given up since there was no room for it. Unit: entries.
  private(set) var forgotten: UInt64 = 0

  /// What an entry takes beside its JSON. Unit: bytes.
  private static let overhead = 64

  /// - Parameter room: For all entries. Unit: bytes.
  init(room: Int) { self.room = room }

  /// The number of entries that are there.
  var count: Int { entries.count - first }

  /// - Parameter number: Higher than that of any other.
  mutating func append(_ json: [UInt8], number: UInt64) {
    entries.append(Entry(number: number, json: json))
    byteCount += json.count + Self.overhead
    while byteCount > room, first < entries.count {
      byteCount -= entries[first].json.count + Self.overhead
      entries[first].json = []
      first += 1
      forgotten += 1
    }
    // Now and then, so that each is moved once on average.
    if first > 1_024, first > entries.count / 2 {
      entries.removeFirst(first)
      first = 0
    }
  }

  /// Of the entries with higher numbers than one, the latest that there is room for, and how many others there are.
  /// - Parameter limit: Unit: bytes.
  func latest(after seen: UInt64, limit: Int) -> (parts: [[UInt8]], skipped: UInt64) {
    var room = limit
    var place = entries.count
    while place > first, entries[place - 1].number > seen {
      room -= entries[place - 1].json.count
      if room < 0 { break }
      place -= 1
    }
    // Of those before, the ones that it has not seen; numbers that stood for something else are none.
    var earlier = place
    while earlier > first, entries[earlier - 1].number > seen { earlier -= 1 }
    return (entries[place...].map(\.json), UInt64(place - earlier))
  }
}

/// What a client of a history is told.
package struct InspectionDelta: Hashable, Sendable {
  /// What it asks with the next time.
  package var cursor: UInt64
  /// When it is told, by the clock that the times of steps are of: a browser's may be another. Unit: nanoseconds
  /// since 1970.
  package var time: Int64 = 0
  /// Whether it has to forget what it knows: that was another history.
  package var isWhole: Bool
  /// How things stand, in the order in which they came to stand so.
  package var standing: [[UInt8]] = []
  /// What has happened, in its order.
  package var happened: [[UInt8]] = []
  /// What has happened before that and is not told. Unit: entries.
  package var skipped: UInt64 = 0
  /// What was written into logs, in its order.
  package var written: [[UInt8]] = []
  /// What was written before that and is not told. Unit: entries.
  package var unwritten: UInt64 = 0

  init(cursor: UInt64, isWhole: Bool) {
    self.cursor = cursor
    self.isWhole = isWhole
  }

  /// As it travels.
  package var json: [UInt8] {
    var json = Array(
      """
      {"cursor":"\(cursor)","time":\(time),"whole":\(isWhole),"skipped":\(skipped),"unwritten":\(unwritten)
      """.utf8)
    Self.append("standing", standing, to: &json)
    Self.append("happened", happened, to: &json)
    Self.append("written", written, to: &json)
    json.append(UInt8(ascii: "}"))
    return json
  }

  private static func append(_ name: StaticString, _ parts: [[UInt8]], to json: inout [UInt8]) {
    json += ",\"\(name)\":[".utf8
    for (place, part) in parts.enumerated() {
      if place > 0 { json.append(UInt8(ascii: ",")) }
      json += part
    }
    json.append(UInt8(ascii: "]"))
  }
}

/// A history that one writes, on any thread, while others read it.
package final class InspectionRecorder: Sendable {
  private let history: Locked<InspectionHistory>

  /// Between two looks of a client that waits for news: so often it is told of something at most.
  private static let pace: Duration = .milliseconds(100)

  /// - Parameter room: For what has happened. Unit: bytes.
  package init(room: Int = 64 << 20) {
    // So that numbers of another history are known for what they are; a page reads them as they stand.
    let origin = UInt64.random(in: 1...(1 << 40)) << 12
    history = Locked(InspectionHistory(room: room, origin: origin))
  }

  /// Takes what has happened.
  /// - Returns: `false` where it is too large.
  @discardableResult
  package func append(_ json: [UInt8]) -> Bool { history.withLock { $0.append(json) } }

  package func append(_ record: JSONValue) { append(record.bytes) }

  /// Takes lines of logs.
  package func write(_ records: [JSONValue]) {
    let lines = records.map(\.bytes)
    history.withLock { for line in lines { $0.write(line) } }
  }

  /// Takes how something stands now.
  package func set(_ name: String, _ record: JSONValue) {
    let json = record.bytes
    history.withLock { $0.set(name, json) }
  }

  /// Forgets how all stands that has none of these names.
  package func keep(only names: Set<String>) { history.withLock { $0.keep(only: names) } }

  /// What a client has not seen, and when that was; where there is nothing, it is waited for.
  /// - Parameters:
  ///   - cursor: The last number that the client has seen.
  ///   - patience: How long it waits at most.
  ///   - limit: For what has happened. Unit: bytes.
  package func news(
    after cursor: UInt64, within patience: Duration, limit: Int
  ) async -> InspectionDelta {
    let deadline = ContinuousClock.now + patience
    repeat {
      // Before the first look, too: what comes now is told together.
      try? await Task.sleep(for: Self.pace)
      if history.withLock({ $0.last != cursor }) { break }
    } while ContinuousClock.now < deadline && !Task.isCancelled
    var delta = history.withLock { $0.delta(after: cursor, limit: limit) }
    delta.time = WallClock.nanoseconds
    return delta
  }
}
