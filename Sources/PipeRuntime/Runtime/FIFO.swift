/// A queue in a ring that grows as needed; its owner bounds it.
struct FIFO<Element> {
  private var ring: [Element?] = []
  private var head = 0
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element) {
    if count == ring.count { grow() }
    ring[(head + count) & (ring.count - 1)] = element
    count += 1
  }

  mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = ring[head]
    ring[head] = nil
    head = (head + 1) & (ring.count - 1)
    count -= 1
    return element
  }

  /// Empties the queue and returns what was in it, in order.
  mutating func removeAll() -> [Element] {
    var all: [Element] = []
    all.reserveCapacity(count)
    while let element = popFirst() { all.append(element) }
    return all
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
