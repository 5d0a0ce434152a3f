import Glibc
import PipeClient
import PipeSystem
import PipeTransport
import PipeWire

/// The part of a process that depends on the process's engine.
protocol ProcessHandle: AnyObject {
  /// The engine that runs the process.
  var engine: any ProcessEngine { get }
  /// The process id on this host; 0 for a process without an id on this host.
  var pid: Int32 { get }
  /// Whether the process runs on another host.
  var isRemote: Bool { get }
  /// The reason why the process ended; `nil` if the engine has no reason.
  var failureReason: String? { get }

  /// Sends a signal to the process.
  /// - Returns: Whether the process still exists.
  @discardableResult
  func signal(_ signal: Signal, group: Bool) -> Bool

  /// Receives lines that the process has written to its output.
  func observe(_ lines: [String])

  /// Releases the resources that this host has for the process. Precondition: the process has ended
  /// and its output was read.
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
  let outputCapture: OutputCapture
  /// The read ends of the pipes to which the node's process writes its output. For an adopted
  /// process, the pipes are created after this object.
  var pipes: [(stream: LogStream, descriptor: Int32)] = []
  /// The registrations of the pipes that have not been read to their end.
  var registrations: [LogStream: PollLoop.Registration] = [:]
  /// For a process that is being adopted: whether the orchestrator has sent its greeting to the
  /// process.
  var isGreeted = false
  /// Whether the process has announced a graceful exit.
  var saidGoodbye = false
  /// The nodes that are or were embedded in the process.
  private(set) var embeddedNodes: Set<String> = []

  /// Measures how long the process has to wait for a processor. Used only while the orchestrator is
  /// waiting for the process.
  private var runQueueSampler: RunQueueSampler?

  init(_ handle: any ProcessHandle, incarnation: UInt64, capture: OutputCapture) {
    self.handle = handle
    self.incarnation = incarnation
    self.outputCapture = capture
  }

  var pid: Int32 { handle.pid }
  var isRemote: Bool { handle.isRemote }

  /// The process of the carrier node; `nil` if this node is not embedded.
  var carrier: NodeProcess? { (handle as? EmbeddedEngine.Handle)?.carrier }

  /// Embeds another node in the process. Later log lines of that node are separated from the
  /// process's own lines.
  func embed(_ node: String) {
    embeddedNodes.insert(node)
    outputCapture.trackEmbeddedNode(node)
  }

  /// Returns how long the process has waited for a processor since the last call; zero if the
  /// orchestrator is not waiting for the process.
  func takeProcessorWaitTime(isAwaited: Bool) -> Duration {
    let threads = isAwaited && !isRemote ? RunQueueSampler.threads(of: pid) : [:]
    guard !threads.isEmpty else {
      runQueueSampler = nil
      return .zero
    }
    var sampler = runQueueSampler ?? RunQueueSampler()
    defer { runQueueSampler = sampler }
    return sampler.take(threads, at: .now)
  }

  /// Sends a signal to the process.
  /// - Returns: Whether the process still exists.
  @discardableResult
  func signal(_ signal: Signal, group: Bool = false) -> Bool {
    handle.signal(signal, group: group)
  }
}

/// Copies the output of a process from its pipes to the log of its node. A line of an embedded node
/// has a prefix with the name of that node; the capture returns such lines to the caller instead.
///
/// Not safe for concurrent use: one thread owns the capture. Each process of a node needs a new
/// capture, and all captures of the node share one writer.
package final class OutputCapture {
  package struct DrainResult: Hashable, Sendable {
    /// Whether more output can follow. If not, the descriptor can be closed.
    package var isOpen: Bool
    /// The complete lines that were read.
    package var lines: [String]
    /// The lines of embedded coordinators, by node, without the prefix. The caller must log them.
    package var embeddedLines: [String: [String]] = [:]
    /// A notice if errors of the log file have started or ended.
    package var notice: LogWriter.Notice?
  }

  package let writer: LogWriter
  /// The last few lines of output, oldest first, to show if the node fails.
  package private(set) var recentLines: [String] = []
  /// The last few lines of each embedded coordinator.
  private var recentEmbeddedLines: [String: [String]] = [:]
  private static let maximumRecentLineCount = 5
  private var splitters: [LogStream: LogLineSplitter] = [:]

  package init(writer: LogWriter) { self.writer = writer }

  /// Reads pending bytes from a non-blocking pipe, and logs their lines. One call reads a limited
  /// number of bytes, so that a node with much output does not delay other nodes.
  package func drain(_ descriptor: Int32, as stream: LogStream) -> DrainResult {
    let (lines, isOpen) = splitters[stream, default: LogLineSplitter()].drain(descriptor)
    var drained = log(lines, from: stream)
    drained.isOpen = isOpen
    return drained
  }

  /// Logs lines that the caller has read.
  package func log(_ lines: [String], from stream: LogStream) -> DrainResult {
    var lines = lines
    let embeddedLines = extractEmbeddedLines(&lines)
    Self.remember(lines, in: &recentLines)
    return DrainResult(
      isOpen: true, lines: lines, embeddedLines: embeddedLines,
      notice: writer.write(lines, from: stream))
  }

  /// Returns the last lines of an embedded coordinator or, if `node` is `nil`, of the node whose
  /// process this is.
  package func recentLines(ofEmbeddedNode node: String?) -> [String] {
    guard let node else { return recentLines }
    return recentEmbeddedLines[node] ?? []
  }

  /// Begins to separate the lines of an embedded coordinator from other lines. Forgets the last
  /// lines of an earlier run of this coordinator.
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
    recent = (recent + lines.suffix(maximumRecentLineCount)).suffix(maximumRecentLineCount)
  }
}

extension LogLineSplitter {
  /// Reads the pending bytes of a non-blocking descriptor, up to a limit.
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
