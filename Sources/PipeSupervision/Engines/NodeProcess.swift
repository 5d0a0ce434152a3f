import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// A process as its engine runs it: what differs between engines.
protocol ProcessHandle: AnyObject {
  /// The engine that runs it.
  var engine: any ProcessEngine { get }
  /// The process id on this host; 0 where it has none here.
  var pid: Int32 { get }
  /// Whether the process runs on another host.
  var isRemote: Bool { get }
  /// Why it ended, as far as the engine knows.
  var failureReason: String? { get }

  /// - Returns: Whether there was a process to send it to.
  @discardableResult
  func signal(_ signal: Signal, group: Bool) -> Bool

  /// Sees the lines that were read from its output.
  func observe(_ lines: [String])

  /// Releases what belongs to the process on this host, once it has ended and its output was read.
  func release(_ process: NodeProcess)
}

extension ProcessHandle {
  var failureReason: String? { nil }
  func observe(_ lines: [String]) {}
  func release(_ process: NodeProcess) {}
}

/// The process of a node, and its output, whichever engine runs it.
final class NodeProcess {
  let handle: any ProcessHandle
  let incarnation: UInt64
  let capture: OutputCapture
  /// The pipes of its output that are read here; none until an adopted process has been given some.
  var pipes: [(stream: LogStream, descriptor: Int32)] = []
  /// The pipes that are still read.
  var registrations: [LogStream: PollLoop.Registration] = [:]
  /// Whether an adopted process has been sent the orchestrator's greeting.
  var isGreeted = false
  /// Whether it has announced an orderly end.
  var saidGoodbye = false
  /// The nodes that are embedded in it, or were.
  private(set) var embedded: Set<String> = []

  /// The queue for a processor, while the process has to answer.
  private var queue: ProcessorQueue?

  init(_ handle: any ProcessHandle, incarnation: UInt64, capture: OutputCapture) {
    self.handle = handle
    self.incarnation = incarnation
    self.capture = capture
  }

  var pid: Int32 { handle.pid }
  var isRemote: Bool { handle.isRemote }

  /// The process that carries an embedded node; `nil` for a process of its own.
  var carrier: NodeProcess? { (handle as? EmbeddedEngine.Handle)?.carrier }

  /// Embeds another node, whose log lines are separated from now on.
  func embed(_ node: String) {
    embedded.insert(node)
    capture.tellApart(node)
  }

  /// The time that it stood in the queue for a processor since the last call, while it has to answer.
  func takeQueueTime(isAwaited: Bool) -> Duration {
    let threads = isAwaited && !isRemote ? ProcessorQueue.threads(of: pid) : [:]
    guard !threads.isEmpty else {
      queue = nil
      return .zero
    }
    var clock = queue ?? ProcessorQueue()
    defer { queue = clock }
    return clock.take(threads, at: .now)
  }

  /// - Returns: Whether there was a process to send it to.
  @discardableResult
  func signal(_ signal: Signal, group: Bool = false) -> Bool {
    handle.signal(signal, group: group)
  }
}

/// One process's output on its way from the pipes into the log of its node. The lines of embedded nodes are
/// separated by their prefix.
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
