import Glibc
import PipeRuntime
import Synchronization

/// Writes the elements of a stream, until the stream ends or the maximum number of lines was
/// written.
struct StreamPrinter {
  private let nodes: [NodeInformation]
  private let format: OutputFormat
  /// The maximum number of lines.
  private let maximumLineCount: Int
  private let deadline: ContinuousClock.Instant?
  private let console: Console

  /// The maximum wait for the initial states of all nodes. After this time, the states that have
  /// arrived are sorted and written.
  private static let initialStateTimeout: Duration = .seconds(2)

  init(_ arguments: ParsedArguments, _ nodes: [NodeInformation], _ console: Console) {
    self.nodes = nodes
    self.console = console
    format = arguments.format
    maximumLineCount = arguments.countValue("count") ?? .max
    deadline = arguments.duration("timeout").map { .now + $0 }
  }

  func write(_ stream: StateStream) throws -> ExitCode {
    let initialStateTimeout = ContinuousClock.now + Self.initialStateTimeout
    let reader = try BlockingStreamReader(stream)
    var first = InitialStateCollector(
      of: nodes.map(\.name), reportingNodes: nodes.filter(\.isRunning).map(\.name))
    var writer = LineWriter(nodes: nodes, format: format, limit: maximumLineCount)
    reading: while !writer.isDone {
      let limit =
        first.isCollecting ? min(deadline ?? initialStateTimeout, initialStateTimeout) : deadline
      switch reader.next(console: console, until: limit) {
      case .change(let change): try writer.write(first.changesToWrite(after: change), to: console)
      case .timedOut where limit != deadline: try writer.write(first.stopCollecting(), to: console)
      case .ended, .timedOut:
        try writer.write(first.stopCollecting(), to: console)
        break reading
      case .readerGone, .interrupted: break reading
      }
    }
    try writer.finish(console)
    return .success
  }

  func write(_ stream: AsyncStream<FeedMessage>) throws -> ExitCode {
    let reader = try BlockingStreamReader(stream)
    var lossDetector = LostMessageDetector()
    let names = Set(nodes.map(\.name))
    var writer = LineWriter(nodes: nodes, format: format, limit: maximumLineCount)
    while !writer.isDone, case .change(let message) = reader.next(console: console, until: deadline)
    {
      let followed = lossDetector.take(message)
      if case .step(let step) = followed.content, !step.isAbout(names) { continue }
      try writer.write(followed, to: console)
    }
    try writer.finish(console)
    return .success
  }
}

/// Sorts the initial states of watched nodes by node. The states arrive in any order, so they are
/// collected until the states of all nodes have arrived.
package struct InitialStateCollector: Sendable {
  private let positions: [String: Int]
  private var missingNodes: Set<String>
  private var collectedChanges: [StateChange] = []
  private var hasStoppedCollecting = false

  /// - Parameters:
  ///   - nodes: All watched nodes, in the order of the output.
  ///   - reportingNodes: The watched nodes that have a state to report.
  package init(of nodes: [String], reportingNodes: some Sequence<String>) {
    positions = Dictionary(nodes.enumerated().map { ($1, $0) }) { first, _ in first }
    missingNodes = Set(reportingNodes)
  }

  /// Whether initial states are being collected, because some are still missing.
  package var isCollecting: Bool { !missingNodes.isEmpty && !hasStoppedCollecting }

  /// Processes a change. Returns the changes that can be written now.
  package mutating func changesToWrite(after change: StateChange) -> [StateChange] {
    guard isCollecting else { return [change] }
    collectedChanges.append(change)
    missingNodes.remove(change.node)
    return isCollecting ? [] : release()
  }

  /// Stops collecting, and returns the collected changes.
  package mutating func stopCollecting() -> [StateChange] {
    hasStoppedCollecting = true
    return release()
  }

  /// Returns the collected changes: first the initial states, in the order of the nodes, then the
  /// later changes.
  private mutating func release() -> [StateChange] {
    var seen: Set<String> = []
    var initialStates: [StateChange] = []
    var laterChanges: [StateChange] = []
    for change in collectedChanges {
      if seen.insert(change.node).inserted {
        initialStates.append(change)
      } else {
        laterChanges.append(change)
      }
    }
    collectedChanges = []
    return initialStates.sorted { positions[$0.node] ?? .max < positions[$1.node] ?? .max }
      + laterChanges
  }
}

/// Reads a stream one element at a time, on a thread that also waits for other descriptors.
///
/// Only one thread may use a reader. The reader requests one element at a time. Between requests,
/// the stream itself buffers the changes, and counts the changes that are missed.
final class BlockingStreamReader<Changes: AsyncSequence & Sendable>
where Changes.Element: Sendable, Changes.Failure == Never {
  enum ReadResult {
    case change(Changes.Element)
    /// The topology has ended.
    case ended
    /// The program that reads this process's stdout has closed the stream.
    case readerGone
    case timedOut
    /// The additional descriptor is readable.
    case interrupted
  }

  private let stream: Changes
  private let mailbox: PollableMailbox<ReadResult>
  private var isReadPending = false

  init(_ stream: Changes) throws(SystemError) {
    self.stream = stream
    mailbox = try PollableMailbox()
  }

  /// Returns the next change, or the reason why the wait ended without a change.
  /// - Parameter otherDescriptor: An additional descriptor to wait for.
  func next(
    console: Console, until deadline: ContinuousClock.Instant?, or otherDescriptor: Int32? = nil
  ) -> ReadResult {
    if !isReadPending {
      isReadPending = true
      Task { [stream, mailbox] in
        var iterator = stream.makeAsyncIterator()
        mailbox.put(await iterator.next(isolation: nil).map { .change($0) } ?? .ended)
      }
    }
    let descriptors = [otherDescriptor, mailbox.descriptor].compactMap(\.self)
    switch console.wait(for: descriptors, until: deadline) {
    case .readable(let found) where found == otherDescriptor: return .interrupted
    case .readable:
      isReadPending = false
      return mailbox.removeValue() ?? .ended
    case .readerGone: return .readerGone
    case .timedOut: return .timedOut
    }
  }
}

/// Passes single values from tasks to a thread that also waits for other descriptors.
final class PollableMailbox<Value: Sendable>: Sendable {
  /// A descriptor that is readable while a value is stored.
  let descriptor: Int32
  private let writeEnd: Int32
  private let content = Mutex<Value?>(nil)

  init() throws(SystemError) {
    var pipeDescriptors: [Int32] = [-1, -1]
    guard pipe(&pipeDescriptors) == 0 else { throw SystemError("pipe", code: errno) }
    (descriptor, writeEnd) = (pipeDescriptors[0], pipeDescriptors[1])
  }

  deinit {
    close(descriptor)
    close(writeEnd)
  }

  /// Stores a value. Precondition: the previous value was removed with ``removeValue()``.
  func put(_ value: Value) {
    content.withLock { $0 = value }
    var byte: UInt8 = 0
    write(writeEnd, &byte, 1)
  }

  /// Removes and returns the stored value. Precondition: ``descriptor`` is readable.
  func removeValue() -> Value? {
    var byte: UInt8 = 0
    read(descriptor, &byte, 1)
    return content.withLock { $0.take() }
  }
}
