import Glibc
import PipeLogs
import PipeWire

/// One process's output on its way from the pipes into the log of its node. The lines of lodgers, other
/// nodes in the process, are told apart by what they begin with.
///
/// Not safe for concurrent use: one thread owns it. Use a new one for each process of a node, with
/// the same writer.
package final class OutputCapture {
  package struct Drained: Hashable, Sendable {
    /// Whether more can come; at `false` the descriptor can be closed.
    package var isOpen: Bool
    /// What was read: whole lines.
    package var lines: [String]
    /// What was read of lodgers, and not logged here, without what it begins with.
    package var ofLodgers: [String: [String]] = [:]
    /// Trouble with the log file that begins or ends.
    package var notice: LogWriter.Notice?
  }

  package let writer: LogWriter
  /// The last lines, oldest first, to show when the node fails.
  package private(set) var recentLines: [String] = []
  /// The same of lodgers.
  private var recentOfLodgers: [String: [String]] = [:]
  private static let recentLimit = 5
  private var splitters: [LogStream: LogLineSplitter] = [:]

  package init(writer: LogWriter) { self.writer = writer }

  /// Reads what waits in a non-blocking pipe, up to a bound that keeps one chatty node from
  /// holding up the others, and logs its lines.
  package func drain(_ descriptor: Int32, as stream: LogStream) -> Drained {
    let (lines, isOpen) = splitters[stream, default: LogLineSplitter()].drain(descriptor)
    var drained = take(lines, from: stream)
    drained.isOpen = isOpen
    return drained
  }

  /// Takes lines that were read elsewhere, and logs them.
  package func take(_ lines: [String], from stream: LogStream) -> Drained {
    var lines = lines
    let ofLodgers = takeOut(&lines)
    Self.remember(lines, in: &recentLines)
    return Drained(
      isOpen: true, lines: lines, ofLodgers: ofLodgers, notice: writer.write(lines, from: stream))
  }

  /// The last lines of the node, or of a lodger.
  package func recentLines(ofLodger node: String?) -> [String] {
    guard let node else { return recentLines }
    return recentOfLodgers[node] ?? []
  }

  /// Tells the lines of a lodger apart from now on; those of a former one under its name are forgotten.
  package func tellApart(_ lodger: String) { recentOfLodgers[lodger] = [] }

  private func takeOut(_ lines: inout [String]) -> [String: [String]] {
    guard !recentOfLodgers.isEmpty else { return [:] }
    var found: [String: [String]] = [:]
    for lodger in recentOfLodgers.keys {
      let prefix = NodeLogPrefix.ofLodger(lodger)
      let own = lines.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
      guard !own.isEmpty else { continue }
      lines.removeAll { $0.hasPrefix(prefix) }
      Self.remember(own, in: &recentOfLodgers[lodger, default: []])
      found[lodger] = own
    }
    return found
  }

  private static func remember(_ lines: [String], in recent: inout [String]) {
    guard !lines.isEmpty else { return }
    recent = (recent + lines.suffix(recentLimit)).suffix(recentLimit)
  }
}

extension LogLineSplitter {
  /// Reads what waits in a non-blocking descriptor, up to a bound.
  /// - Returns: Whole lines, and whether more can come.
  mutating func drain(_ descriptor: Int32) -> (lines: [String], isOpen: Bool) {
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
        if isOpen { lines += append(UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
        rounds += 1
      }
    }
    if !isOpen, let rest = finish() { lines.append(rest) }
    return (lines, isOpen)
  }
}
