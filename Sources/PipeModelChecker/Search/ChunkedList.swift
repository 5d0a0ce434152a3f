/// A growing list of items in chunks of memory. Each item has the same number of elements.
///
/// The list grows without copying elements. So growing needs no temporary memory, and elements keep
/// their addresses.
struct ChunkedList<Element: BitwiseCopyable>: ~Copyable {
  /// The number of items in a chunk.
  static var chunkSize: Int { 4096 }

  /// The number of items.
  private(set) var count = 0
  /// The number of elements in an item.
  let width: Int
  private var chunks: UnsafeMutablePointer<UnsafeMutablePointer<Element>>
  private var chunkCount = 0
  private var chunkCapacity = 16

  init(width: Int = 1) {
    self.width = width
    chunks = .allocate(capacity: chunkCapacity)
  }

  deinit {
    for number in 0..<chunkCount { chunks[number].deallocate() }
    chunks.deallocate()
  }

  /// The number of items for which memory is allocated.
  var capacity: Int { chunkCount * Self.chunkSize }

  /// The size of a chunk. Unit: bytes.
  var chunkByteCount: Int { Self.chunkSize * width * MemoryLayout<Element>.stride }

  mutating func addChunk() {
    if chunkCount == chunkCapacity {
      let larger = UnsafeMutablePointer<UnsafeMutablePointer<Element>>.allocate(
        capacity: 2 * chunkCapacity)
      larger.moveInitialize(from: chunks, count: chunkCount)
      chunks.deallocate()
      chunks = larger
      chunkCapacity *= 2
    }
    chunks[chunkCount] = .allocate(capacity: Self.chunkSize * width)
    chunkCount += 1
  }

  /// Appends an item of one element. Precondition: ``capacity`` is greater than ``count``.
  @inline(__always)
  mutating func append(_ element: Element) {
    chunks[count &>> 12][count & 4095] = element
    count &+= 1
  }

  /// Appends an item of `width` elements. Precondition: ``capacity`` is greater than ``count``.
  @inline(__always)
  mutating func append(_ item: UnsafePointer<Element>) {
    let end = chunks[count &>> 12] + (count & 4095) &* width
    for element in 0..<width { end[element] = item[element] }
    count &+= 1
  }

  /// The element of the item with this number. Precondition: `width` is 1.
  @inline(__always)
  subscript(number: Int) -> Element {
    get { chunks[number &>> 12][number & 4095] }
    set { chunks[number &>> 12][number & 4095] = newValue }
  }

  /// Returns a pointer to the first element of an item. The following items, up to the next
  /// multiple of ``chunkSize``, are adjacent in memory.
  @inline(__always)
  func pointer(at number: Int) -> UnsafeMutablePointer<Element> {
    chunks[number &>> 12] + (number & 4095) &* width
  }
}
