import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// A process as its engine runs it: the parts that differ between engines.
protocol ProcessHandle: AnyObject {
  /// The engine that runs the process.
  var engine: any ProcessEngine { get }
  /// The process id on this host; 0 if there is none on this host.
  var pid: Int32 { get }
  /// Whether the process runs on another host.
  var isRemote: Bool { get }
  /// The reason why the process ended, as far as the engine knows it.
  var failureReason: String? { get }

  /// Sends a signal to the process.
  /// - Returns: Whether there was a process to send it to.
  @discardableResult
  func signal(_ signal: Signal, group: Bool) -> Bool

  /// Receives the lines that were read from the output of the process.
  func observe(_ lines: [String])

  /// Releases the resources of the process on this host, once it has ended and its output was read.
  func release(_ process: NodeProcess)
}

extension ProcessHandle {
  var failureReason: String? { nil }
  func observe(_ lines: [String]) {}
  func release(_ process: NodeProcess) {}
}

/// The process of a node, and its output, for any engine.
final class NodeProcess {
  let handle: any ProcessHandle
  let incarnation: UInt64
  let capture: OutputCapture
  /// The output pipes that are read here. An adopted process has none until it is given some.
  var pipes: [(stream: LogStream, descriptor: Int32)] = []
  /// The pipes that have not been read to their end.
  var registrations: [LogStream: PollLoop.Registration] = [:]
  /// Whether an adopted process has been sent the orchestrator's greeting.
  var isGreeted = false
  /// Whether the process has announced an orderly end.
  var saidGoodbye = false
  /// The nodes that are embedded in the process, or were.
  private(set) var embedded: Set<String> = []

  /// The measurement of the wait for a processor, while the process is awaited.
  private var queue: RunQueueSampler?

  init(_ handle: any ProcessHandle, incarnation: UInt64, capture: OutputCapture) {
    self.handle = handle
    self.incarnation = incarnation
    self.capture = capture
  }

  var pid: Int32 { handle.pid }
  var isRemote: Bool { handle.isRemote }

  /// The process that carries an embedded node; `nil` for a node with a process of its own.
  var carrier: NodeProcess? { (handle as? EmbeddedEngine.Handle)?.carrier }

  /// Embeds another node in the process, and separates its log lines.
  func embed(_ node: String) {
    embedded.insert(node)
    capture.trackEmbeddedNode(node)
  }

  /// Returns how long the process has waited for a processor since the last call, while it is awaited.
  func takeQueueTime(isAwaited: Bool) -> Duration {
    let threads = isAwaited && !isRemote ? RunQueueSampler.threads(of: pid) : [:]
    guard !threads.isEmpty else {
      queue = nil
      return .zero
    }
    var clock = queue ?? RunQueueSampler()
    defer { queue = clock }
    return clock.take(threads, at: .now)
  }

  /// Sends a signal to the process.
  /// - Returns: Whether there was a process to send it to.
  @discardableResult
  func signal(_ signal: Signal, group: Bool = false) -> Bool {
    handle.signal(signal, group: group)
  }
}

/// The output of one process on its way from the pipes into the log of its node. The lines of embedded
/// nodes are separated by their prefix.
///
/// Not safe for concurrent use: one thread owns the capture. Use a new capture for each process of a
/// node, with the same writer.
package final class OutputCapture {
  package struct DrainResult: Hashable, Sendable {
    /// Whether more output can follow. If `false`, the descriptor can be closed.
    package var isOpen: Bool
    /// The complete lines that were read.
    package var lines: [String]
    /// The lines of embedded coordinators, by node and without the prefix. They are not logged here.
    package var embeddedLines: [String: [String]] = [:]
    /// An error of the log file that has begun or ended.
    package var notice: LogWriter.Notice?
  }

  package let writer: LogWriter
  /// The last lines, oldest first, to show if the node fails.
  package private(set) var recentLines: [String] = []
  /// The last lines of embedded coordinators.
  private var recentEmbeddedLines: [String: [String]] = [:]
  private static let recentLimit = 5
  private var splitters: [LogStream: LogLineSplitter] = [:]

  package init(writer: LogWriter) { self.writer = writer }

  /// Reads the pending bytes of a non-blocking pipe and logs their lines. The amount is bounded, so
  /// that a node with much output does not delay the others.
  package func drain(_ descriptor: Int32, as stream: LogStream) -> DrainResult {
    let (lines, isOpen) = splitters[stream, default: LogLineSplitter()].drain(descriptor)
    var drained = take(lines, from: stream)
    drained.isOpen = isOpen
    return drained
  }

  /// Logs lines that were read by the caller.
  package func take(_ lines: [String], from stream: LogStream) -> DrainResult {
    var lines = lines
    let embeddedLines = extractEmbeddedLines(&lines)
    Self.remember(lines, in: &recentLines)
    return DrainResult(
      isOpen: true, lines: lines, embeddedLines: embeddedLines,
      notice: writer.write(lines, from: stream))
  }

  /// Returns the last lines of the node, or of an embedded coordinator.
  package func recentLines(ofEmbeddedNode node: String?) -> [String] {
    guard let node else { return recentLines }
    return recentEmbeddedLines[node] ?? []
  }

  /// Separates the lines of an embedded coordinator, and forgets the lines of a former one of the same
  /// name.
  package func trackEmbeddedNode(_ embeddedNode: String) { recentEmbeddedLines[embeddedNode] = [] }

  private func extractEmbeddedLines(_ lines: inout [String]) -> [String: [String]] {
    guard !recentEmbeddedLines.isEmpty else { return [:] }
    var found: [String: [String]] = [:]
    for embeddedNode in recentEmbeddedLines.keys {
      let prefix = NodeLogPrefix.ofEmbeddedNode(embeddedNode)
      let own = lines.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
      guard !own.isEmpty else { continue }
      lines.removeAll { $0.hasPrefix(prefix) }
      Self.remember(own, in: &recentEmbeddedLines[embeddedNode, default: []])
      found[embeddedNode] = own
    }
    return found
  }

  private static func remember(_ lines: [String], in recent: inout [String]) {
    guard !lines.isEmpty else { return }
    recent = (recent + lines.suffix(recentLimit)).suffix(recentLimit)
  }
}

extension LogLineSplitter {
  /// Reads the pending bytes of a non-blocking descriptor, up to a bound.
  /// - Returns: The complete lines, and whether more output can follow.
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
