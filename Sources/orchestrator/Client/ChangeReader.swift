import Glibc
import PipeRuntime
import Synchronization

/// Takes changes from a stream one at a time, on a thread that also waits for other things.
///
/// Owned by one thread. It asks for a change only when the one before was taken, so that the
/// stream's own bound and count of missed changes hold.
final class ChangeReader {
  enum Next {
    case change(StateChange)
    /// The topology went down.
    case ended
    /// Nobody reads stdout any more.
    case readerGone
    case timedOut
  }

  /// One change on its way from a task to the thread.
  private final class Slot: Sendable {
    /// Readable while a change, or the end, waits.
    let readEnd: Int32
    private let writeEnd: Int32
    private let content = Mutex<StateChange?>(nil)

    init() throws(SystemError) {
      var ends: [Int32] = [-1, -1]
      guard pipe(&ends) == 0 else { throw SystemError("pipe", code: errno) }
      (readEnd, writeEnd) = (ends[0], ends[1])
    }

    deinit {
      close(readEnd)
      close(writeEnd)
    }

    func put(_ change: StateChange?) {
      content.withLock { $0 = change }
      var byte: UInt8 = 0
      write(writeEnd, &byte, 1)
    }

    func take() -> StateChange? {
      var byte: UInt8 = 0
      read(readEnd, &byte, 1)
      return content.withLock { $0 }
    }
  }

  private let stream: StateStream
  private let slot: Slot
  private var isAsking = false

  init(_ stream: StateStream) throws(SystemError) {
    self.stream = stream
    slot = try Slot()
  }

  /// The next change, or what came before it.
  func next(console: Console, until deadline: ContinuousClock.Instant?) -> Next {
    if !isAsking {
      isAsking = true
      Task { [stream, slot] in
        var iterator = stream.makeAsyncIterator()
        slot.put(await iterator.next())
      }
    }
    switch console.wait(for: slot.readEnd, until: deadline) {
    case .readable:
      isAsking = false
      return slot.take().map { .change($0) } ?? .ended
    case .readerGone: return .readerGone
    case .timedOut: return .timedOut
    }
  }
}
