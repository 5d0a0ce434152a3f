import Glibc
import PipeSupport

/// Output that a thread of its own writes, so that a reader that has stopped reading delays no caller.
///
/// What exceeds the limit is dropped and counted; a line in its place says how much is missing as soon as the
/// reader reads again. The thread is left to the end of the process.
package final class OutputQueue: Sendable {
  private struct State {
    var pending: [UInt8] = []
    /// Lines that were not queued since the writer last took what was pending.
    var droppedLines = 0
    /// Calls of `append` that the writer has not dealt with yet, be it that lines are only reported as missing.
    var unservedCount = 0
    /// All bytes that were written, modulo 2^64.
    var written: UInt64 = 0
    /// The errno after which nothing is written any more.
    var end: Int32?
  }

  private let descriptor: Int32
  private let limit: Int
  private let state = Locked(State())
  /// Signalled when there is something to write.
  private let work = Semaphore()

  /// Starts the thread. Block the signals that the process reads from descriptors before.
  /// - Parameter limit: The most that waits to be written. Unit: bytes.
  package init(_ descriptor: Int32, limit: Int = 1 << 20) {
    self.descriptor = descriptor
    self.limit = limit
    var thread = pthread_t()
    let argument = Unmanaged.passRetained(self)
    let code = pthread_create(
      &thread, nil,
      { argument in
        Unmanaged<OutputQueue>.fromOpaque(argument!).takeUnretainedValue().writeUntilEnd()
        return nil
      }, argument.toOpaque())
    guard code == 0 else {
      argument.release()
      // Output is not worth a process that supervises others.
      state.withLock { $0.end = code }
      return
    }
    pthread_detach(thread)
  }

  /// Queues whole lines, or drops them where the limit is reached; never waits.
  /// - Returns: Whether there may still be a reader.
  @discardableResult
  package func append(_ bytes: [UInt8]) -> Bool {
    guard !bytes.isEmpty else { return isOpen }
    let isOpen = state.withLock { state in
      guard state.end == nil else { return false }
      if state.droppedLines > 0 || state.pending.count + bytes.count > limit {
        state.droppedLines += max(1, Self.lineCount(bytes[...]))
      } else {
        state.pending += bytes
      }
      state.unservedCount += 1
      return true
    }
    if isOpen { work.signal() }
    return isOpen
  }

  /// Whether there may still be a reader.
  package var isOpen: Bool { state.withLock { $0.end == nil } }

  /// Whether all that was queued has been written, or could not be.
  package var isEmpty: Bool { state.withLock { $0.end != nil || $0.unservedCount == 0 } }

  /// Waits until all is written, or nothing more was read for a while.
  package func drain(patience: Duration) {
    var written: UInt64?
    while !isEmpty {
      let now = state.withLock { $0.written }
      if now == written { return }
      written = now
      _ = Polling.wait(every: .milliseconds(1), until: .now + patience) {
        isEmpty || state.withLock { $0.written } != now ? true : nil
      }
    }
  }

  // MARK: The thread

  private func writeUntilEnd() {
    // A terminal set to 'tostop' would stop the process, with all that it supervises.
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGTTOU)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    var isMidLine = false
    while isOpen {
      work.wait()
      var batch = takePending()
      if isMidLine, !batch.isEmpty { batch.insert(0x0A, at: 0) }
      let (count, problem) = write(batch)
      isMidLine = problem != nil && count > 0 && batch[count - 1] != 0x0A
      state.withLock { state in
        state.unservedCount -= 1
        switch problem {
        case nil: break
        case EPIPE, EIO, EBADF, ENXIO: state.end = problem
        // A full disk, say: it may have space again.
        default: state.droppedLines += max(1, Self.lineCount(batch[count...]))
        }
      }
    }
  }

  /// What is to be written now, with the number of lines that are missing behind it.
  private func takePending() -> [UInt8] {
    state.withLock { state in
      var batch = state.pending
      if state.droppedLines > 0 {
        batch +=
          "orchestrator: \(state.droppedLines) lines of output are missing here: they could not be written\n"
          .utf8
      }
      state.pending = []
      state.droppedLines = 0
      return batch
    }
  }

  /// Writes all, however long the reader takes.
  /// - Returns: How many bytes were written, and the errno where they are not all.
  private func write(_ bytes: [UInt8]) -> (count: Int, problem: Int32?) {
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.write(descriptor, $0.baseAddress! + done, min(bytes.count - done, 65_536))
      }
      let problem = errno
      if count > 0 {
        done += count
        state.withLock { $0.written &+= UInt64(count) }
      } else if count < 0, problem == EAGAIN {
        // Another process has made what they share non-blocking.
        var item = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&item, 1, -1)
      } else if count == 0 || problem != EINTR {
        return (done, count < 0 ? problem : ENOSPC)
      }
    }
    return (done, nil)
  }

  private static func lineCount(_ bytes: ArraySlice<UInt8>) -> Int { bytes.count { $0 == 0x0A } }
}
