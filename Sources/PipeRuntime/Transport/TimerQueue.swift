/// Work that is due at instants; a few dozen at most, so a sorted array does.
package struct TimerQueue {
  /// Names a scheduled timer.
  package struct ID: Hashable, Sendable { fileprivate let value: UInt64 }

  private struct Entry {
    let id: ID
    let due: ContinuousClock.Instant
    let work: () -> Void
  }

  private var entries: [Entry] = []
  private var lastID: UInt64 = 0

  package init() {}

  package var isEmpty: Bool { entries.isEmpty }

  package mutating func schedule(
    at due: ContinuousClock.Instant, _ work: @escaping () -> Void
  ) -> ID {
    lastID += 1
    let entry = Entry(id: ID(value: lastID), due: due, work: work)
    let index = entries.firstIndex { $0.due > due } ?? entries.endIndex
    entries.insert(entry, at: index)
    return entry.id
  }

  package mutating func cancel(_ id: ID) { entries.removeAll { $0.id == id } }

  /// Takes out what is due, earliest first.
  package mutating func due(at now: ContinuousClock.Instant) -> [() -> Void] {
    guard let first = entries.first, first.due <= now else { return [] }
    let count = entries.prefix { $0.due <= now }.count
    defer { entries.removeFirst(count) }
    return entries[..<count].map(\.work)
  }

  /// The wait until the next timer, rounded up; -1 where there is none. Unit: milliseconds.
  package func millisecondsUntilNext(from now: ContinuousClock.Instant) -> Int {
    guard let first = entries.first else { return -1 }
    let wait = first.due - now
    guard wait > .zero else { return 0 }
    let (seconds, attoseconds) = wait.components
    let milliseconds = (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000
    return Int(min(seconds, 3_600) * 1_000 + milliseconds)
  }
}
