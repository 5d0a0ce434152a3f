/// Numbers in the order in which they came. Growing never copies, so that memory has no peak, and an
/// element stays where it is.
struct Chunked<Element: BitwiseCopyable>: ~Copyable {
  static var chunkSize: Int { 4096 }

  private(set) var count = 0
  private var chunks: UnsafeMutablePointer<UnsafeMutablePointer<Element>>
  private var chunkCount = 0
  private var chunkCapacity = 16

  init() {
    chunks = .allocate(capacity: chunkCapacity)
  }

  deinit {
    for number in 0..<chunkCount { chunks[number].deallocate() }
    chunks.deallocate()
  }

  /// The elements for which there is memory.
  var capacity: Int { chunkCount * Self.chunkSize }

  /// The memory of one more chunk. Unit: bytes.
  static var chunkByteCount: Int { chunkSize * MemoryLayout<Element>.stride }

  mutating func addChunk() {
    if chunkCount == chunkCapacity {
      let larger = UnsafeMutablePointer<UnsafeMutablePointer<Element>>.allocate(
        capacity: 2 * chunkCapacity)
      larger.moveInitialize(from: chunks, count: chunkCount)
      chunks.deallocate()
      chunks = larger
      chunkCapacity *= 2
    }
    chunks[chunkCount] = .allocate(capacity: Self.chunkSize)
    chunkCount += 1
  }

  /// Appends where there is memory: see ``capacity``.
  @inline(__always)
  mutating func append(_ element: Element) {
    chunks[count &>> 12][count & 4095] = element
    count &+= 1
  }

  @inline(__always)
  subscript(number: Int) -> Element {
    get { chunks[number &>> 12][number & 4095] }
    set { chunks[number &>> 12][number & 4095] = newValue }
  }

  /// Where an element lies; those up to the next multiple of ``chunkSize`` follow it.
  @inline(__always)
  func pointer(at number: Int) -> UnsafeMutablePointer<Element> {
    chunks[number &>> 12] + (number & 4095)
  }
}
