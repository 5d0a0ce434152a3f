/// A first-in, first-out queue in a ring that grows as needed; its owner bounds it.
package struct Queue<Element> {
  private var ring: [Element?] = []
  private var head = 0
  package private(set) var count = 0

  package init() {}

  package var isEmpty: Bool { count == 0 }

  /// The next element, which stays.
  package var first: Element? { count > 0 ? ring[head] : nil }

  package mutating func append(_ element: Element) {
    if count == ring.count { grow() }
    ring[(head + count) & (ring.count - 1)] = element
    count += 1
  }

  package mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = ring[head]
    ring[head] = nil
    head = (head + 1) & (ring.count - 1)
    count -= 1
    return element
  }

  package func contains(where isWanted: (Element) -> Bool) -> Bool {
    ring.contains { $0.map(isWanted) ?? false }
  }

  /// Empties the queue and returns what was in it, in order.
  package mutating func removeAll() -> [Element] {
    var all: [Element] = []
    all.reserveCapacity(count)
    while let element = popFirst() { all.append(element) }
    return all
  }

  /// Puts elements before the first, in their order.
  package mutating func prepend(contentsOf elements: [Element]) {
    for element in elements.reversed() {
      if count == ring.count { grow() }
      head = (head - 1) & (ring.count - 1)
      ring[head] = element
      count += 1
    }
  }

  private mutating func grow() {
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
