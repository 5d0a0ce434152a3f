/// The events of a batch that are new to its receiver.
package struct ArrivedEvents {
  private let body: UnsafeRawBufferPointer
  private let count: UInt32
  private let known: Int
  private let first: UInt64

  /// - Parameters:
  ///   - body: The body of an `events` frame, which has so many of them.
  ///   - known: How many of the first are not new.
  ///   - first: The sequence number of the first that is.
  package init(in body: UnsafeRawBufferPointer, count: UInt32, known: Int, first: UInt64) {
    self.body = body
    self.count = count
    self.known = known
    self.first = first
  }

  /// Calls back with each. Throws, before the first, where the batch's lengths and count do not agree.
  package func forEach(
    _ take: (UnsafeRawBufferPointer, _ sequence: UInt64) -> Void
  ) throws(FrameError) {
    var place = 0
    try EventBatch.forEach(in: body, count: count) { bytes in
      if place >= known { take(bytes, first + UInt64(place - known)) }
      place += 1
    }
  }
}
