import Glibc
import PipeRuntime
import Synchronization

/// Writes the elements of a stream until the stream ends, or the limit is reached.
struct StreamPrinter {
  private let nodes: [NodeInformation]
  private let format: OutputFormat
  /// Unit: lines.
  private let limit: Int
  private let deadline: ContinuousClock.Instant?
  private let console: Console

  /// The longest time to wait for all first states before they are sorted and written.
  private static let initialStateTimeout: Duration = .seconds(2)

  init(_ arguments: ParsedArguments, _ nodes: [NodeInformation], _ console: Console) {
    self.nodes = nodes
    self.console = console
    format = arguments.format
    limit = arguments.count("count") ?? .max
    deadline = arguments.duration("timeout").map { .now + $0 }
  }

  func write(_ stream: StateStream) throws -> ExitCode {
    let initialStateTimeout = ContinuousClock.now + Self.initialStateTimeout
    let reader = try BlockingStreamReader(stream)
    var first = InitialStateCollector(
      of: nodes.map(\.name), reportingNodes: nodes.filter(\.isRunning).map(\.name))
    var writer = LineWriter(nodes: nodes, format: format, limit: limit)
    reading: while !writer.isDone {
      let limit =
        first.isCollecting ? min(deadline ?? initialStateTimeout, initialStateTimeout) : deadline
      switch reader.next(console: console, until: limit) {
      case .change(let change): try writer.write(first.take(change), to: console)
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
    var writer = LineWriter(nodes: nodes, format: format, limit: limit)
    while !writer.isDone, case .change(let message) = reader.next(console: console, until: deadline)
    { try writer.write(lossDetector.take(message), to: console) }
    try writer.finish(console)
    return .success
  }
}

/// Sorts the initial states of a watch by node. They arrive in the order in which the nodes' feeds
/// deliver them, so they are collected until all have arrived.
package struct InitialStateCollector: Sendable {
  private let order: [String: Int]
  private var missing: Set<String>
  private var collected: [StateChange] = []
  private var hasStoppedCollecting = false

  /// - Parameters:
  ///   - nodes: All watched nodes, in their order.
  ///   - reportingNodes: The watched nodes that have a state to report.
  package init(of nodes: [String], reportingNodes: some Sequence<String>) {
    order = Dictionary(nodes.enumerated().map { ($1, $0) }) { first, _ in first }
    missing = Set(reportingNodes)
  }

  /// Whether a first state is still missing.
  package var isCollecting: Bool { !missing.isEmpty && !hasStoppedCollecting }

  /// Adds a change, and returns the changes to show now.
  package mutating func take(_ change: StateChange) -> [StateChange] {
    guard isCollecting else { return [change] }
    collected.append(change)
    missing.remove(change.node)
    return isCollecting ? [] : release()
  }

  /// Stops waiting, and returns the collected changes.
  package mutating func stopCollecting() -> [StateChange] {
    hasStoppedCollecting = true
    return release()
  }

  /// Returns the first state of each node in node order, then the later changes.
  private mutating func release() -> [StateChange] {
    var seen: Set<String> = []
    var initialStates: [StateChange] = []
    var laterChanges: [StateChange] = []
    for change in collected {
      if seen.insert(change.node).inserted {
        initialStates.append(change)
      } else {
        laterChanges.append(change)
      }
    }
    collected = []
    return initialStates.sorted { order[$0.node] ?? .max < order[$1.node] ?? .max } + laterChanges
  }
}

/// Reads a stream one element at a time, on a thread that also waits for other descriptors.
///
/// One thread owns it. It requests an element only after the previous one was taken, so that the
/// stream's own bound and its count of missed changes stay correct.
final class BlockingStreamReader<Changes: AsyncSequence & Sendable>
where Changes.Element: Sendable, Changes.Failure == Never {
  enum ReadResult {
    case change(Changes.Element)
    /// The topology went down.
    case ended
    /// The reader of stdout has gone.
    case readerGone
    case timedOut
    /// The other descriptor is readable.
    case interrupted
  }

  private let stream: Changes
  private let mailbox: PollableMailbox<ReadResult>
  private var isReadPending = false

  init(_ stream: Changes) throws(SystemError) {
    self.stream = stream
    mailbox = try PollableMailbox()
  }

  /// Returns the next change, or the event that came before it.
  /// - Parameter otherDescriptor: Another descriptor to wait for.
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
      return mailbox.take() ?? .ended
    case .readerGone: return .readerGone
    case .timedOut: return .timedOut
    }
  }
}

/// Hands single values from tasks to a thread that also waits for other descriptors.
final class PollableMailbox<Value: Sendable>: Sendable {
  /// The descriptor that is readable while a value waits.
  let descriptor: Int32
  private let writeEnd: Int32
  private let content = Mutex<Value?>(nil)

  init() throws(SystemError) {
    var ends: [Int32] = [-1, -1]
    guard pipe(&ends) == 0 else { throw SystemError("pipe", code: errno) }
    (descriptor, writeEnd) = (ends[0], ends[1])
  }

  deinit {
    close(descriptor)
    close(writeEnd)
  }

  /// Stores a value. The previous value must have been taken.
  func put(_ value: Value) {
    content.withLock { $0 = value }
    var byte: UInt8 = 0
    write(writeEnd, &byte, 1)
  }

  /// Takes the waiting value. Call it only when ``descriptor`` is readable.
  func take() -> Value? {
    var byte: UInt8 = 0
    read(descriptor, &byte, 1)
    return content.withLock { $0.take() }
  }
}
