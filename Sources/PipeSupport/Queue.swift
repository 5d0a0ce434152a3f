/// A first-in, first-out queue in a ring buffer that grows as needed. The queue does not limit the
/// number of its elements.
///
/// All members are inlinable for speed: each event of a node passes through a queue. If the
/// compiler could not specialize the queue for its elements, the queue would cost several times as
/// much as a step.
@frozen
@usableFromInline
package struct Queue<Element> {
  @usableFromInline var ring: [Element?] = []
  @usableFromInline var head = 0
  @usableFromInline package internal(set) var count = 0

  @inlinable
  package init() {}

  @inlinable package var isEmpty: Bool { count == 0 }

  /// The element at the front, which stays in the queue; `nil` if the queue is empty.
  @inlinable package var first: Element? { count > 0 ? ring[head] : nil }

  @inlinable
  package mutating func append(_ element: consuming Element) {
    if count == ring.count { grow() }
    ring[(head &+ count) & (ring.count &- 1)] = consume element
    count &+= 1
  }

  @inlinable
  package mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = ring[head].take()
    head = (head &+ 1) & (ring.count &- 1)
    count &-= 1
    return element
  }

  @inlinable
  package func contains(where predicate: (Element) -> Bool) -> Bool {
    ring.contains { $0.map(predicate) ?? false }
  }

  /// Empties the queue and returns its elements in order.
  @inlinable
  package mutating func removeAll() -> [Element] {
    var all: [Element] = []
    all.reserveCapacity(count)
    while let element = popFirst() { all.append(element) }
    return all
  }

  /// Inserts elements at the front of the queue. The elements keep their order.
  @inlinable
  package mutating func prepend(contentsOf elements: [Element]) {
    for element in elements.reversed() {
      if count == ring.count { grow() }
      head = (head - 1) & (ring.count - 1)
      ring[head] = element
      count += 1
    }
  }

  @inlinable
  mutating func grow() {
    // The capacity stays a power of two, so that a bit mask can replace the modulo operation.
    var largerBuffer: [Element?] = []
    largerBuffer.reserveCapacity(max(8, 2 * ring.count))
    for index in 0..<count { largerBuffer.append(ring[(head + index) & (ring.count - 1)]) }
    while largerBuffer.count < max(8, 2 * ring.count) { largerBuffer.append(nil) }
    ring = largerBuffer
    head = 0
  }
}

extension Queue: Sendable where Element: Sendable {}

/// A set of integers from 0 up to a fixed count, with a fast search for the next integer in the
/// set.
package struct IndexBitmap: Sendable {
  private var words: [UInt64]

  package init(count: Int) { words = Array(repeating: 0, count: (count + 63) / 64) }

  package var isEmpty: Bool {
    for word in words where word != 0 { return false }
    return true
  }

  package mutating func insert(_ bit: Int) { words[bit >> 6] |= 1 << UInt64(bit & 63) }

  package mutating func remove(_ bit: Int) { words[bit >> 6] &= ~(1 << UInt64(bit & 63)) }

  /// Returns the first integer in the set at or after `start`. If the set contains no such integer,
  /// returns the lowest integer in the set; `nil` if the set is empty.
  package func firstIndex(from start: Int) -> Int? {
    let first = start >> 6
    guard first < words.count else { return nil }
    let later = words[first] & (~0 << UInt64(start & 63))
    if later != 0 { return first << 6 + later.trailingZeroBitCount }
    for step in 1...words.count {
      let word = (first + step) % words.count
      if words[word] != 0 { return word << 6 + words[word].trailingZeroBitCount }
    }
    return nil
  }
}
