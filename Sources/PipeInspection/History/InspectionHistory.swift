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
