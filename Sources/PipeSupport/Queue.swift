/// A first-in, first-out queue in a ring that grows as needed; its owner bounds it.
///
/// All of it is inlinable: each event of a node goes through one, and through a queue that is not specialized
/// for its elements, at several times the cost of the step.
@frozen
@usableFromInline
package struct Queue<Element> {
  @usableFromInline var ring: [Element?] = []
  @usableFromInline var head = 0
  @usableFromInline package internal(set) var count = 0

  @inlinable
  package init() {}

  @inlinable package var isEmpty: Bool { count == 0 }

  /// The next element, which stays.
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
  package func contains(where isWanted: (Element) -> Bool) -> Bool {
    ring.contains { $0.map(isWanted) ?? false }
  }

  /// Empties the queue and returns what was in it, in order.
  @inlinable
  package mutating func removeAll() -> [Element] {
    var all: [Element] = []
    all.reserveCapacity(count)
    while let element = popFirst() { all.append(element) }
    return all
  }

  /// Puts elements before the first, in their order.
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
    // The capacity stays a power of two, so that a mask does for the modulus.
    var larger: [Element?] = []
    larger.reserveCapacity(max(8, 2 * ring.count))
    for index in 0..<count { larger.append(ring[(head + index) & (ring.count - 1)]) }
    while larger.count < max(8, 2 * ring.count) { larger.append(nil) }
    ring = larger
    head = 0
  }
}

extension Queue: Sendable where Element: Sendable {}
