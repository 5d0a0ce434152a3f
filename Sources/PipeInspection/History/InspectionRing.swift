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
