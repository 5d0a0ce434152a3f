/// States on their way from the partition that found them to the one that keeps them.
struct Outbox: ~Copyable {
  /// The words of each state, and behind them its fingerprint.
  let words: UnsafeMutablePointer<UInt64>
  let origins: UnsafeMutablePointer<UInt32>
  let stride: Int
  let capacity: Int
  private(set) var count = 0

  init(stateWords: Int, capacity: Int) {
    stride = stateWords + 1
    self.capacity = capacity
    words = .allocate(capacity: capacity * stride)
    origins = .allocate(capacity: capacity)
  }

  deinit {
    words.deallocate()
    origins.deallocate()
  }

  /// The memory of an outbox. Unit: bytes.
  var byteCount: Int { capacity * (stride * 8 + 4) }

  @inline(__always)
  mutating func append(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32
  ) {
    let place = words + count &* stride
    for word in 0..<(stride &- 1) { place[word] = state[word] }
    place[stride &- 1] = fingerprint
    origins[count] = origin
    count &+= 1
  }

  mutating func removeAll() { count = 0 }
}
