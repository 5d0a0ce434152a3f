import PipeRuntime

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
