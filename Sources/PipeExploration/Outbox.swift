/// States on their way from the partition that found them to the one that keeps them.
final class Outbox {
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
  func append(
    _ state: UnsafePointer<UInt64>, fingerprint: UInt64, origin: UInt32
  ) {
    let end = words + count &* stride
    for word in 0..<(stride &- 1) { end[word] = state[word] }
    end[stride &- 1] = fingerprint
    origins[count] = origin
    count &+= 1
  }

  func removeAll() { count = 0 }
}
