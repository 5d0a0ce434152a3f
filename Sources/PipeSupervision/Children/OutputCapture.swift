import Glibc

/// One node's output on its way from the pipes into its log file.
///
/// Not safe for concurrent use: one thread owns it. Use a new one for each process of a node, with
/// the same writer.
package final class OutputCapture {
  package struct Drained: Hashable, Sendable {
    /// Whether more can come; at `false` the descriptor can be closed.
    package var isOpen: Bool
    /// What was read: whole lines.
    package var lines: [String]
    /// Trouble with the log file that begins or ends.
    package var notice: LogWriter.Notice?
  }

  package let writer: LogWriter
  /// The last lines, oldest first, to show when the node fails.
  package private(set) var recentLines: [String] = []
  private static let recentLimit = 5
  private var splitters: [LogStream: LogLineSplitter] = [:]

  package init(writer: LogWriter) { self.writer = writer }

  /// Reads what waits in a non-blocking pipe, up to a bound that keeps one chatty node from
  /// holding up the others, and logs its lines.
  package func drain(_ descriptor: Int32, as stream: LogStream) -> Drained {
    var lines: [String] = []
    var isOpen = true
    let size = 65536
    withUnsafeTemporaryAllocation(byteCount: size, alignment: 1) { buffer in
      var rounds = 0
      while isOpen, rounds < 4 {
        let count = read(descriptor, buffer.baseAddress!, size)
        if count < 0, errno == EINTR { continue }
        if count < 0, errno == EAGAIN { return }
        isOpen = count > 0
        if isOpen {
          let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
          lines += splitters[stream, default: LogLineSplitter()].append(bytes)
        }
        rounds += 1
      }
    }
    if !isOpen, let rest = splitters[stream]?.finish() { lines.append(rest) }
    remember(lines)
    return Drained(isOpen: isOpen, lines: lines, notice: writer.write(lines, from: stream))
  }

  private func remember(_ lines: [String]) {
    guard !lines.isEmpty else { return }
    recentLines = (recentLines + lines.suffix(Self.recentLimit)).suffix(Self.recentLimit)
  }
}
