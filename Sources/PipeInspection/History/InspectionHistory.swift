/// What has happened in a topology, as far back as there is room, and how all stands now: the memory of an
/// inspector, which any number of clients read at their own pace.
///
/// Everything that is taken has a number, and numbers only grow. A client keeps the last one that it has
/// seen; what it has not seen is what has a higher one. So a client that reads slowly, or no more, costs nothing.
package struct InspectionHistory: Sendable {
  /// What has happened once.
  private struct Entry {
    var number: UInt64
    var json: [UInt8]
  }

  /// What stands until it changes.
  private struct Standing {
    var number: UInt64
    var json: [UInt8]
  }

  private var entries: [Entry] = []
  /// Those before this place are gone.
  private var first = 0
  private var byteCount = 0
  private let room: Int
  /// By name.
  private var standing: [String: Standing] = [:]
  /// The number that was given last.
  package private(set) var last: UInt64
  /// What was given up since there was no room for it. Unit: entries.
  package private(set) var forgotten: UInt64 = 0
  /// The number before the first.
  private let origin: UInt64

  /// What an entry takes beside its JSON. Unit: bytes.
  private static let overhead = 64
  /// The largest entry. Unit: bytes.
  package static let entryByteCount = 64 << 10

  /// - Parameters:
  ///   - room: For what has happened. Unit: bytes.
  ///   - origin: The number before the first: a client of another inspector's history is to see that.
  package init(room: Int = 64 << 20, origin: UInt64 = 0) {
    self.room = room
    self.origin = origin
    last = origin
  }

  /// Takes what has happened, as JSON.
  /// - Returns: `false` where it is larger than any entry may be.
  @discardableResult
  package mutating func append(_ json: [UInt8]) -> Bool {
    guard json.count <= Self.entryByteCount else { return false }
    last += 1
    entries.append(Entry(number: last, json: json))
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
  package var count: Int { entries.count - first }

  /// What a client has not seen: how all stands that has changed since, and what has happened, of which the
  /// latest is told that fits.
  /// - Parameters:
  ///   - cursor: The last number that it has seen; 0 where it has seen nothing.
  ///   - limit: For what has happened. Unit: bytes.
  package func delta(after cursor: UInt64, limit: Int) -> InspectionDelta {
    let isKnown = cursor >= origin && cursor <= last && cursor != 0
    let seen = isKnown ? cursor : origin
    var delta = InspectionDelta(cursor: last, isWhole: !isKnown)
    delta.standing = standing.values.filter { $0.number > seen }
      .sorted { $0.number < $1.number }.map(\.json)
    var room = limit
    var place = entries.count
    while place > first, entries[place - 1].number > seen {
      room -= entries[place - 1].json.count
      if room < 0 { break }
      place -= 1
    }
    delta.happened = entries[place...].map(\.json)
    // Of those before, the ones that it has not seen; numbers that stood for something else are none.
    var unseen: UInt64 = 0
    var earlier = place
    while earlier > first, entries[earlier - 1].number > seen {
      unseen += 1
      earlier -= 1
    }
    delta.skipped = unseen
    return delta
  }
}

/// What a client of a history is told.
package struct InspectionDelta: Hashable, Sendable {
  /// What it asks with the next time.
  package var cursor: UInt64
  /// Whether it has to forget what it knows: that was another history.
  package var isWhole: Bool
  /// How things stand, in the order in which they came to stand so.
  package var standing: [[UInt8]] = []
  /// What has happened, in its order.
  package var happened: [[UInt8]] = []
  /// What has happened before that and is not told. Unit: entries.
  package var skipped: UInt64 = 0

  init(cursor: UInt64, isWhole: Bool) {
    self.cursor = cursor
    self.isWhole = isWhole
  }

  /// As it travels.
  package var json: [UInt8] {
    var json = Array(
      "{\"cursor\":\"\(cursor)\",\"whole\":\(isWhole),\"skipped\":\(skipped),\"standing\":[".utf8)
    Self.append(standing, to: &json)
    json += "],\"happened\":[".utf8
    Self.append(happened, to: &json)
    json += "]}".utf8
    return json
  }

  private static func append(_ parts: [[UInt8]], to json: inout [UInt8]) {
    for (place, part) in parts.enumerated() {
      if place > 0 { json.append(UInt8(ascii: ",")) }
      json += part
    }
  }
}
