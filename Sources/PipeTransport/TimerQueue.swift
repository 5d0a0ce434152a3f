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

  /// How many were scheduled so far: what tells those from later ones.
  package var newest: UInt64 { lastNumber }

  /// Takes out the earliest that is due; one at a time, since each may cancel another.
  /// - Parameters:
  ///   - now: Unit: nanoseconds.
  ///   - newest: Those that were scheduled since are left, and what is due behind them.
  package mutating func takeDue(at now: Int64, through newest: UInt64) -> (() -> Void)? {
    guard let first = entries.first, first.id.due <= now, first.id.number <= newest else {
      return nil
    }
    return entries.removeFirst().work
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
