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
  }

  private let stream: Changes
  private let handover: Handover<Next>
  private var isAsking = false

  init(_ stream: Changes) throws(SystemError) {
    self.stream = stream
    handover = try Handover()
  }

  /// The next change, or what came before it.
  func next(console: Console, until deadline: ContinuousClock.Instant?) -> Next {
    if !isAsking {
      isAsking = true
      Task { [stream, handover] in
        var iterator = stream.makeAsyncIterator()
        handover.put(await iterator.next(isolation: nil).map { .change($0) } ?? .ended)
      }
    }
    switch console.wait(for: [handover.descriptor], until: deadline) {
    case .readable:
      isAsking = false
      return handover.take() ?? .ended
    case .readerGone: return .readerGone
    case .timedOut: return .timedOut
    }
  }
}
