/// A table of a fixed size that is read without checks.
final class FlatTable<Element: BitwiseCopyable> {
  let start: UnsafeMutablePointer<Element>
  let count: Int

  init(_ elements: [Element]) {
    count = elements.count
    start = .allocate(capacity: max(1, count))
    _ = UnsafeMutableBufferPointer(start: start, count: count).initialize(from: elements)
  }

  init(repeating element: Element, count: Int) {
    self.count = count
    start = .allocate(capacity: max(1, count))
    start.initialize(repeating: element, count: count)
  }

  deinit { start.deallocate() }

  @inline(__always)
  subscript(position: Int) -> Element { start[position] }
}
