import Glibc
import PipeRuntime
import Synchronization

/// Writes what a stream tells until it ends, or enough is written.
struct StreamLines {
  private let nodes: [NodeInformation]
  private let format: OutputFormat
  /// Unit: lines.
  private let limit: Int
  private let deadline: ContinuousClock.Instant?
  private let console: Console

  /// How long the first states are waited for to be put in order.
  private static let patience: Duration = .seconds(2)

  init(_ arguments: ParsedArguments, _ nodes: [NodeInformation], _ console: Console) {
    self.nodes = nodes
    self.console = console
    format = arguments.format
    limit = arguments.count("count") ?? .max
    deadline = arguments.duration("timeout").map { .now + $0 }
  }

  func write(_ stream: StateStream) throws -> ExitCode {
    let patience = ContinuousClock.now + Self.patience
    let reader = try ChangeReader(stream)
    var first = FirstStates(
      of: nodes.map(\.name), awaited: nodes.filter(\.isRunning).map(\.name))
    var writer = LineWriter(nodes: nodes, format: format, limit: limit)
    reading: while !writer.isDone {
      let limit = first.isCollecting ? min(deadline ?? patience, patience) : deadline
      switch reader.next(console: console, until: limit) {
      case .change(let change): try writer.write(first.take(change), to: console)
      case .timedOut where limit != deadline: try writer.write(first.giveUp(), to: console)
      case .ended, .timedOut:
        try writer.write(first.giveUp(), to: console)
        break reading
      case .readerGone, .interrupted: break reading
      }
    }
    try writer.finish(console)
    return .success
  }

  func write(_ stream: AsyncStream<FeedMessage>) throws -> ExitCode {
    let reader = try ChangeReader(stream)
    var numbers = FollowedNumbers()
    var writer = LineWriter(nodes: nodes, format: format, limit: limit)
    while !writer.isDone, case .change(let message) = reader.next(console: console, until: deadline)
    { try writer.write(numbers.take(message), to: console) }
    try writer.finish(console)
    return .success
  }
}

/// Puts the states that a watch begins with in the order of the nodes: they come as the nodes' feeds
/// tell them. Until all are there, they are collected.
package struct FirstStates: Sendable {
  private let order: [String: Int]
  private var missing: Set<String>
  private var collected: [StateChange] = []
  private var hasGivenUp = false

  /// - Parameters:
  ///   - nodes: All that are watched, in their order.
  ///   - awaited: Those of them that have a state to tell.
  package init(of nodes: [String], awaited: some Sequence<String>) {
    order = Dictionary(nodes.enumerated().map { ($1, $0) }) { first, _ in first }
    missing = Set(awaited)
  }

  /// Whether a state is still awaited.
  package var isCollecting: Bool { !missing.isEmpty && !hasGivenUp }

  /// Takes a change. Returns what is to be shown now.
  package mutating func take(_ change: StateChange) -> [StateChange] {
    guard isCollecting else { return [change] }
    collected.append(change)
    missing.remove(change.node)
    return isCollecting ? [] : release()
  }

  /// Waits no longer. Returns what was collected.
  package mutating func giveUp() -> [StateChange] {
    hasGivenUp = true
    return release()
  }

  /// The first state of each node in their order, then what came after these.
  private mutating func release() -> [StateChange] {
    var seen: Set<String> = []
    var firsts: [StateChange] = []
    var others: [StateChange] = []
    for change in collected {
      if seen.insert(change.node).inserted { firsts.append(change) } else { others.append(change) }
    }
    collected = []
    return firsts.sorted { order[$0.node] ?? .max < order[$1.node] ?? .max } + others
  }
}

/// Takes what a stream tells one at a time, on a thread that also waits for other things.
///
/// Owned by one thread. It asks for a change only when the one before was taken, so that the
/// stream's own bound and count of missed changes hold.
final class ChangeReader<Changes: AsyncSequence & Sendable>
where Changes.Element: Sendable, Changes.Failure == Never {
  enum Next {
    case change(Changes.Element)
    /// The topology went down.
    case ended
    /// Nobody reads stdout any more.
    case readerGone
    case timedOut
    /// The other descriptor can be read.
    case interrupted
  }

  private let stream: Changes
  private let handover: Handover<Next>
  private var isAsking = false

  init(_ stream: Changes) throws(SystemError) {
    self.stream = stream
    handover = try Handover()
  }

  /// The next change, or what came before it.
  /// - Parameter other: A descriptor that is waited for as well.
  func next(
    console: Console, until deadline: ContinuousClock.Instant?, or other: Int32? = nil
  ) -> Next {
    if !isAsking {
      isAsking = true
      Task { [stream, handover] in
        var iterator = stream.makeAsyncIterator()
        handover.put(await iterator.next(isolation: nil).map { .change($0) } ?? .ended)
      }
    }
    let descriptors = [other, handover.descriptor].compactMap(\.self)
    switch console.wait(for: descriptors, until: deadline) {
    case .readable(let found) where found == other: return .interrupted
    case .readable:
      isAsking = false
      return handover.take() ?? .ended
    case .readerGone: return .readerGone
    case .timedOut: return .timedOut
    }
  }
}

/// Values on their way from tasks to a thread that also waits for other things: one at a time.
final class Handover<Value: Sendable>: Sendable {
  /// Readable while a value waits.
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

  /// Called where the value before was taken.
  func put(_ value: Value) {
    content.withLock { $0 = value }
    var byte: UInt8 = 0
    write(writeEnd, &byte, 1)
  }

  /// Called where one waits.
  func take() -> Value? {
    var byte: UInt8 = 0
    read(descriptor, &byte, 1)
    return content.withLock { $0.take() }
  }
}
