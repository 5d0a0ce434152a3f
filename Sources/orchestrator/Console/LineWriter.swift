import PipeRuntime

/// Writes states, steps and events as `-o` asks.
struct LineWriter {
  private let nodes: [NodeInformation]
  private let format: OutputFormat
  /// Unit: lines.
  private let limit: Int
  private let width: Int
  private var count = 0
  private var records: [JSONValue] = []
  /// What the last line of each node in doubt says of that.
  private var doubts: [String: [InDoubtTransaction]] = [:]

  init(nodes: [NodeInformation], format: OutputFormat, limit: Int) {
    self.nodes = nodes
    self.format = format
    self.limit = limit
    width = nodes.map(\.name.displayWidth).max() ?? 0
  }

  var isDone: Bool { count >= limit }

  mutating func write(_ changes: [StateChange], to console: Console) throws {
    for change in changes where !isDone {
      let before = doubts[change.node] ?? []
      doubts[change.node] = change.doubts.isEmpty ? nil : change.doubts
      // Counters are in the records only.
      if format == .text, change.isRepeated, change.doubts == before { continue }
      let place = place(of: change.node)
      let line =
        format == .text
        ? change.line(
          nodeWidth: width, fields: fields(at: place), style: console.style, color: place ?? 0,
          wasInDoubt: !before.isEmpty) : ""
      try write([line], change.record, to: console)
    }
    try console.flush()
  }

  mutating func write(_ message: FollowedMessage, to console: Console) throws {
    let place =
      switch message.content {
      case .step(let step): place(of: step.node)
      case .event(let event): place(of: event.node)
      }
    let lines =
      format == .text
      ? message.lines(
        nodeWidth: width, fields: fields(at: place), style: console.style, color: place ?? 0) : []
    try write(lines, message.record, to: console)
    try console.flush()
  }

  private mutating func write(
    _ lines: [String], _ record: @autoclosure () -> JSONValue, to console: Console
  ) throws {
    switch format {
    case .text:
      for line in lines where !isDone {
        count += 1
        try console.print(line)
      }
    case .json:
      count += 1
      records.append(record())
    case .jsonl:
      count += 1
      try console.print(record())
    }
  }

  private func place(of node: String) -> Int? { nodes.firstIndex { $0.name == node } }

  private func fields(at place: Int?) -> [String]? { place.flatMap { nodes[$0].stateFields } }

  func finish(_ console: Console) throws {
    if format == .json { try console.print(.array(records)) }
  }
}
