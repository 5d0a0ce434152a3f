/// A first-in, first-out queue with constant-time ends, on one array.
package struct Queue<Element> {
  private var storage: [Element?] = []
  private var head = 0

  package init() {}

  package var count: Int { storage.count - head }
  package var isEmpty: Bool { storage.count == head }
  package var first: Element? { isEmpty ? nil : storage[head] }

  package mutating func append(_ element: Element) { storage.append(element) }

  /// Takes out the first element.
  package mutating func popFirst() -> Element? {
    guard head < storage.count else { return nil }
    let element = storage[head]
    storage[head] = nil
    head += 1
    if head == storage.count {
      storage.removeAll(keepingCapacity: head <= 4_096)
      head = 0
    } else if head >= 1_024, head * 2 >= storage.count {
      storage.removeFirst(head)
      head = 0
    }
    return element
  }

  /// Puts elements before the first, in their order.
  package mutating func prepend(contentsOf elements: [Element]) {
    storage.replaceSubrange(0..<head, with: elements)
    head = 0
  }
}
