/// Work that is due at instants of the steady clock; some hundreds at most, so a sorted array does.
package struct TimerQueue {
  /// Names a scheduled timer.
  package struct ID: Hashable, Sendable {
    fileprivate let due: Int64
    fileprivate let number: UInt64
  }

  private struct Entry {
    let id: ID
    let work: () -> Void
  }

  private var entries: [Entry] = []
  private var lastNumber: UInt64 = 0

  package init() {}

  /// When the next timer is due; `nil` where there is none. Unit: nanoseconds.
  package var next: Int64? { entries.first?.id.due }

  /// - Parameter due: Unit: nanoseconds.
  package mutating func schedule(at due: Int64, _ work: @escaping () -> Void) -> ID {
    lastNumber += 1
    let id = ID(due: due, number: lastNumber)
    entries.insert(Entry(id: id, work: work), at: place(of: id))
    return id
  }

  package mutating func cancel(_ id: ID) {
    let place = place(of: id)
    if place < entries.count, entries[place].id == id { entries.remove(at: place) }
  }

  /// Takes out what is due, earliest first.
  /// - Parameter now: Unit: nanoseconds.
  package mutating func due(at now: Int64) -> [() -> Void] {
    guard let first = entries.first, first.id.due <= now else { return [] }
    let count = place(of: ID(due: now, number: .max))
    defer { entries.removeFirst(count) }
    return entries[..<count].map(\.work)
  }

  /// Where a timer is, or belongs: behind those that are due earlier, or at the same time and are older.
  private func place(of id: ID) -> Int {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      let other = entries[middle].id
      if (other.due, other.number) < (id.due, id.number) { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
