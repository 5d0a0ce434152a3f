/// A growing list of items, each with one or several elements.
///
/// Growing never copies elements, so memory has no peak and elements keep their addresses.
struct Chunked<Element: BitwiseCopyable>: ~Copyable {
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

  /// The memory of one more chunk. Unit: bytes.
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

  /// Appends an item of one element. The caller ensures the memory: see ``capacity``.
  @inline(__always)
  mutating func append(_ element: Element) {
    chunks[count &>> 12][count & 4095] = element
    count &+= 1
  }

  /// Appends an item of `width` elements. The caller ensures the memory.
  @inline(__always)
  mutating func append(_ item: UnsafePointer<Element>) {
    let end = chunks[count &>> 12] + (count & 4095) &* width
    for element in 0..<width { end[element] = item[element] }
    count &+= 1
  }

  /// The element of an item of one element.
  @inline(__always)
  subscript(number: Int) -> Element {
    get { chunks[number &>> 12][number & 4095] }
    set { chunks[number &>> 12][number & 4095] = newValue }
  }

  /// Returns a pointer to the first element of an item; the items up to the next multiple of
  /// ``chunkSize`` follow it.
  @inline(__always)
  func pointer(at number: Int) -> UnsafeMutablePointer<Element> {
    chunks[number &>> 12] + (number & 4095) &* width
  }
}
