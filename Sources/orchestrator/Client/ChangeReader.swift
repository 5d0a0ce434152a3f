import PipeRuntime

/// Takes what a stream tells one at a time, on a thread that also waits for other things.
///
/// Owned by one thread. It asks for a change only when the one before was taken, so that the
/// stream's own bound and count of missed changes hold.
final class ChangeReader<Changes: AsyncSequence & Sendable>
where Changes.Element: Sendable, Changes.Failure == Never {
  enum Next {
    case change(Changes.Element)
    /// The topology went down.
    case ended
    /// Nobody reads stdout any more.
    case readerGone
    case timedOut
    /// The other descriptor can be read.
    case interrupted
  }

  private let stream: Changes
  private let handover: Handover<Next>
  private var isAsking = false

  init(_ stream: Changes) throws(SystemError) {
    self.stream = stream
    handover = try Handover()
  }

  /// The next change, or what came before it.
  /// - Parameter other: A descriptor that is waited for as well.
  func next(
    console: Console, until deadline: ContinuousClock.Instant?, or other: Int32? = nil
  ) -> Next {
    if !isAsking {
      isAsking = true
      Task { [stream, handover] in
        var iterator = stream.makeAsyncIterator()
        handover.put(await iterator.next(isolation: nil).map { .change($0) } ?? .ended)
      }
    }
    let descriptors = [other, handover.descriptor].compactMap(\.self)
    switch console.wait(for: descriptors, until: deadline) {
    case .readable(let found) where found == other: return .interrupted
    case .readable:
      isAsking = false
      return handover.take() ?? .ended
    case .readerGone: return .readerGone
    case .timedOut: return .timedOut
    }
  }
}
