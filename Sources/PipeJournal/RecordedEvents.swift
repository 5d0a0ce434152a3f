import Glibc

/// The events of a pipe that wait for their acknowledgement, in order, as JSON: each where its row has it.
package struct RecordedEvents: Sequence {
  /// Lines, of which each is an event.
  private var rows: [ArraySlice<UInt8>] = []
  package private(set) var count = 0

  init() {}

  package var isEmpty: Bool { count == 0 }

  /// Adds the events of a row but for the first ones.
  mutating func append(_ row: [UInt8], count: Int, droppingFirst dropped: Int) {
    guard dropped < count else { return }
    var lines = row[...]
    for _ in 0..<dropped { lines = Self.split(lines).rest ?? [] }
    rows.append(lines)
    self.count += count - dropped
  }

  /// Drops the first events, of which there must be so many.
  package mutating func removeFirst(_ count: Int) {
    precondition(count <= self.count)
    var iterator = makeIterator()
    for _ in 0..<count { _ = iterator.next() }
    rows = iterator.rest
    self.count -= count
  }

  package func makeIterator() -> Iterator { Iterator(rows) }

  package struct Iterator: IteratorProtocol {
    private let rows: [ArraySlice<UInt8>]
    private var place = 0
    /// What is left of the row before the next one; `nil` where all of it is taken.
    private var row: ArraySlice<UInt8>?

    fileprivate init(_ rows: [ArraySlice<UInt8>]) {
      self.rows = rows
    }

    package mutating func next() -> ArraySlice<UInt8>? {
      if row == nil {
        guard place < rows.count else { return nil }
        row = rows[place]
        place += 1
      }
      guard let lines = row else { return nil }
      let (event, rest) = RecordedEvents.split(lines)
      row = rest
      return event
    }

    fileprivate var rest: [ArraySlice<UInt8>] { (row.map { [$0] } ?? []) + rows[place...] }
  }

  /// The first of some lines, and those behind it; `nil` where there are none.
  private static func split(
    _ lines: ArraySlice<UInt8>
  ) -> (event: ArraySlice<UInt8>, rest: ArraySlice<UInt8>?) {
    let count = lines.withUnsafeBytes { bytes -> Int? in
      guard let start = bytes.baseAddress, let found = memchr(start, 0x0A, bytes.count) else {
        return nil
      }
      return UnsafeRawPointer(found) - start
    }
    guard let count else { return (lines, nil) }
    let end = lines.startIndex + count
    return (lines[..<end], lines[(end + 1)...])
  }
}
