import Glibc
import PipeSupport

/// A queue of output that a separate thread writes, so that a slow reader does not delay the
/// callers.
///
/// The queue drops output beyond its limit. Where lines were dropped, the reader finds a line with
/// the number of dropped lines. The thread runs until the process ends, or until the output can no
/// longer be written.
package final class OutputQueue: Sendable {
  private struct State {
    var pendingBytes: [UInt8] = []
    /// The number of lines that were dropped since the writer thread last removed the pending
    /// bytes.
    var droppedLines = 0
    /// The number of calls of `append` that the writer thread has not handled yet, including calls
    /// whose lines were dropped.
    var unhandledAppendCount = 0
    /// The total number of bytes written, modulo 2^64.
    var writtenByteCount: UInt64 = 0
    /// The errno that ended the output permanently.
    var endErrorCode: Int32?
  }

  private let descriptor: Int32
  private let maximumPendingByteCount: Int
  private let state = Locked(State())
  /// Signalled when there is output to write.
  private let outputAvailable = Semaphore()

  /// Starts the writer thread. The caller must first block the signals that the process reads from
  /// descriptors.
  /// - Parameter byteLimit: The maximum size of the pending output. Unit: bytes.
  package init(_ descriptor: Int32, byteLimit: Int = 1 << 20) {
    self.descriptor = descriptor
    self.maximumPendingByteCount = byteLimit
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
      // A failure of the output must not end a process that supervises others.
      state.withLock { $0.endErrorCode = code }
      return
    }
    pthread_detach(thread)
  }

  /// Queues complete lines. Drops them if the limit is reached. Never blocks.
  /// - Returns: Whether the output may still have a reader.
  @discardableResult
  package func append(_ bytes: [UInt8]) -> Bool {
    guard !bytes.isEmpty else { return isOpen }
    let isOpen = state.withLock { state in
      guard state.endErrorCode == nil else { return false }
      if state.droppedLines > 0 || state.pendingBytes.count + bytes.count > maximumPendingByteCount
      {
        state.droppedLines += max(1, Self.lineCount(bytes[...]))
      } else {
        state.pendingBytes += bytes
      }
      state.unhandledAppendCount += 1
      return true
    }
    if isOpen { outputAvailable.signal() }
    return isOpen
  }

  /// Whether the output may still have a reader.
  package var isOpen: Bool { state.withLock { $0.endErrorCode == nil } }

  /// Whether all queued output was written, or can no longer be written.
  package var isEmpty: Bool {
    state.withLock { $0.endErrorCode != nil || $0.unhandledAppendCount == 0 }
  }

  /// Waits until all output is written, or until the reader has read nothing for `patience`.
  package func drain(patience: Duration) {
    var lastWrittenByteCount: UInt64?
    while !isEmpty {
      let now = state.withLock { $0.writtenByteCount }
      if now == lastWrittenByteCount { return }
      lastWrittenByteCount = now
      _ = Polling.wait(every: .milliseconds(1), until: .now + patience) {
        isEmpty || state.withLock { $0.writtenByteCount } != now ? true : nil
      }
    }
  }

  // MARK: The writer thread

  private func writeUntilEnd() {
    // Blocks SIGTTOU. Otherwise, a terminal with `tostop` set would stop this process, which
    // supervises nodes.
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGTTOU)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    var isMidLine = false
    while isOpen {
      outputAvailable.wait()
      var batch = removePendingBytes()
      if isMidLine, !batch.isEmpty { batch.insert(0x0A, at: 0) }
      let (count, problem) = write(batch)
      isMidLine = problem != nil && count > 0 && batch[count - 1] != 0x0A
      state.withLock { state in
        state.unhandledAppendCount -= 1
        switch problem {
        case nil: break
        case EPIPE, EIO, EBADF, ENXIO: state.endErrorCode = problem
        // The error may be temporary, such as a full disk, so the writer continues.
        default: state.droppedLines += max(1, Self.lineCount(batch[count...]))
        }
      }
    }
  }

  /// Removes and returns the pending bytes. If lines were dropped, appends a line with the number
  /// of dropped lines.
  private func removePendingBytes() -> [UInt8] {
    state.withLock { state in
      var batch = state.pendingBytes
      if state.droppedLines > 0 {
        batch +=
          "orchestrator: \(state.droppedLines) lines of output are missing here: they could not be written\n"
          .utf8
      }
      state.pendingBytes = []
      state.droppedLines = 0
      return batch
    }
  }

  /// Writes all bytes. Waits for the reader as long as necessary.
  /// - Returns: The number of bytes written, and the errno if not all bytes were written.
  private func write(_ bytes: [UInt8]) -> (byteCount: Int, errorCode: Int32?) {
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.write(descriptor, $0.baseAddress! + done, min(bytes.count - done, 65_536))
      }
      let problem = errno
      if count > 0 {
        done += count
        state.withLock { $0.writtenByteCount &+= UInt64(count) }
      } else if count < 0, problem == EAGAIN {
        // Another process has made the shared open file description non-blocking.
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
