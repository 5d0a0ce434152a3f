import PipeRuntime

/// Writes states, steps and events in the format that `-o` selects.
struct LineWriter {
  private let nodes: [NodeInformation]
  private let format: OutputFormat
  /// The maximum number of lines.
  private let maximumLineCount: Int
  private let width: Int
  private var lineCount = 0
  private var records: [JSONValue] = []
  /// For each node, the in-doubt transactions in the last line about the node.
  private var inDoubtByNode: [String: [InDoubtTransaction]] = [:]

  init(nodes: [NodeInformation], format: OutputFormat, limit: Int) {
    self.nodes = nodes
    self.format = format
    self.maximumLineCount = limit
    width = nodes.map(\.name.displayWidth).max() ?? 0
  }

  var isDone: Bool { lineCount >= maximumLineCount }

  mutating func write(_ changes: [StateChange], to console: Console) throws {
    for change in changes where !isDone {
      let before = inDoubtByNode[change.node] ?? []
      inDoubtByNode[change.node] = change.doubts.isEmpty ? nil : change.doubts
      // A text line shows no counters. So a repeated state with the same transactions in doubt
      // would add nothing new.
      if format == .text, change.isRepeated, change.doubts == before { continue }
      let index = nodeIndex(of: change.node)
      let line =
        format == .text
        ? change.line(
          nodeWidth: width, fields: fields(at: index), style: console.style, color: index ?? 0,
          wasInDoubt: !before.isEmpty) : ""
      try write([line], change.record, to: console)
    }
    try console.flush()
  }

  mutating func write(_ message: FollowedMessage, to console: Console) throws {
    let index =
      switch message.content {
      case .step(let step): nodeIndex(of: step.name) ?? nodeIndex(of: step.node)
      case .event(let event): nodeIndex(of: event.node)
      }
    let lines =
      format == .text
      ? message.lines(
        nodeWidth: width, fields: fields(at: index), style: console.style, color: index ?? 0) : []
    try write(lines, message.record, to: console)
    try console.flush()
  }

  private mutating func write(
    _ lines: [String], _ record: @autoclosure () -> JSONValue, to console: Console
  ) throws {
    switch format {
    case .text:
      for line in lines where !isDone {
        lineCount += 1
        try console.print(line)
      }
    case .json:
      lineCount += 1
      records.append(record())
    case .jsonl:
      lineCount += 1
      try console.print(record())
    }
  }

  private func nodeIndex(of node: String) -> Int? { nodes.firstIndex { $0.name == node } }

  private func fields(at index: Int?) -> [String]? { index.flatMap { nodes[$0].stateFields } }

  func finish(_ console: Console) throws {
    if format == .json { try console.print(.array(records)) }
  }
}

/// An element in the output of `monitor`: a step or an event of a pipe, with the number of lost
/// messages before it.
package struct FollowedMessage: Hashable, Sendable {
  package enum Content: Hashable, Sendable {
    case step(NodeStep)
    case event(TappedEvent)
  }

  package var content: Content
  /// The number of messages that were sent immediately before this message, but lost because the
  /// reader was too slow.
  package var lostCount: UInt64

  package init(_ content: Content, lost: UInt64 = 0) {
    self.content = content
    self.lostCount = lost
  }
}

/// Finds lost messages by gaps in the message numbers.
package struct LostMessageDetector: Sendable {
  /// A sequence of consecutive numbers: the numbers of the steps of one process, or of the events
  /// of one stream.
  private enum MessageSequence: Hashable, Sendable {
    case process(String, UInt64)
    case stream(String, UInt64)
  }

  private var lastNumbers: [MessageSequence: UInt64] = [:]

  package init() {}

  package mutating func take(_ message: FeedMessage) -> FollowedMessage {
    switch message {
    case .step(let step):
      let lost = lost(before: step.index, step.skipped, of: .process(step.node, step.incarnation))
      return FollowedMessage(.step(step), lost: lost)
    case .event(let event):
      let lost = lost(before: event.number, event.skipped, of: .stream(event.pipe, event.stream))
      return FollowedMessage(.event(event), lost: lost)
    }
  }

  private mutating func lost(
    before number: UInt64, _ skipped: UInt64?, of sequence: MessageSequence
  ) -> UInt64 {
    let before = lastNumbers.updateValue(number, forKey: sequence)
    guard let before, number > before else { return 0 }
    let reported = skipped ?? 1
    return number - before > reported ? number - before - reported : 0
  }
}

extension FollowedMessage {
  /// Returns the lines for users. If messages were lost before this message, the first line says
  /// how many.
  package func lines(nodeWidth: Int, fields: [String]? = nil, style: Style, color: Int = 0)
    -> [String]
  {
    let (time, name, text) =
      switch content {
      case .step(let step): (step.time, step.name, step.text(fields: fields, style))
      case .event(let event): (event.time, event.node, event.text(style))
      }
    // A message about skipped steps or events contains no time.
    let timeText = time.map { style.time($0) } ?? String(repeating: " ", count: style.time(0).count)
    let linePrefix =
      style.dim(timeText) + " "
      + style.colorByIndex(color, name.printable.padded(to: nodeWidth)) + "  "
    return
      (lostCount > 0 ? [linePrefix + style.red("\(lostCount) lost: the reader was too slow")] : [])
      + [
        linePrefix + text
      ]
  }

  /// The JSON for `-o json` and `-o jsonl`.
  package var record: JSONValue {
    let (reported, time) =
      switch content {
      case .step(let step): (try? JSONValue(encoding: step), step.time)
      case .event(let event): (try? JSONValue(encoding: event), event.time)
      }
    guard case .object(var record)? = reported else { return .null }
    if let time { record["time"] = .string(Timestamp(nanoseconds: time).description) }
    record["lost"] = .count(lostCount)
    return .object(record)
  }
}

extension NodeStep {
  /// Returns whether the message is about one of these nodes or instances. A message about skipped
  /// steps does not say which instances took them, so the result is `true`.
  func isAbout(_ names: Set<String>) -> Bool {
    names.contains(node) || names.contains(name) || skipped != nil
  }

  /// The step in one line, such as `idle --go--> busy  (a.out->b.in 17)  version 4, sends
  /// b.out->c.in 5: placed(id: 1)`.
  fileprivate func text(fields: [String]?, _ style: Style) -> String {
    if let skipped { return style.dim("\(skipped) steps skipped, up to version \(version)") }
    let from = self.from.map { $0.stateText(fields: fields) + " " } ?? ""
    let state = self.state.map { $0.stateText(fields: fields) } ?? "?"
    let event = self.event.map { "--\($0.caseText)--> " } ?? "--> "
    let sends = (sent ?? []).map { "\($0.pipe) \($0.number): \($0.event?.caseText ?? "?")" }
    let note = "(\(originText))  version \(version)" + (sends.isEmpty ? "" : ", sends ")
    return (from + event + state).printable + "  " + style.dim(note.printable)
      + sends.joined(separator: ", ").printable
  }

  private var originText: String {
    if let source { return "\(source.pipe) \(source.number)" }
    let cause = self.cause ?? "?"
    if let request { return "\(cause) \(request.number) of client \(request.client)" }
    if let effect { return "\(cause) of version \(effect)" }
    return transaction.map { "\(cause), transaction \($0)" } ?? cause
  }
}

extension TappedEvent {
  /// The event in one line, such as `17  placed(id: 1)`.
  fileprivate func text(_ style: Style) -> String {
    if let skipped { return style.dim("\(skipped) events skipped, up to number \(number)") }
    return "\(style.dim(String(number)))  \((event?.caseText ?? "?").printable)"
  }
}

extension StateChange {
  /// Returns a line such as `2026-11-20T09:00:00.123Z door  closing(persons: 3)  (request)`. The
  /// style selects the time zone.
  /// - Parameters:
  ///   - fields: The names of the state's fields; `nil` if the state is not a struct.
  ///   - wasInDoubt: Whether the previous line of this node showed that the node was in doubt.
  package func line(
    nodeWidth: Int, fields: [String]? = nil, style: Style = Style(isColored: false), color: Int = 0,
    wasInDoubt: Bool = false
  ) -> String {
    // If the client requested only the latest states, the states between them were not missed, but
    // skipped as requested.
    let missedPhrase = summary == nil ? "missed before" : "more before"
    let note =
      cause + (isIntermediate ? ", intermediate" : "")
      + (missedCount > 0 ? "; \(missedCount) \(missedPhrase)" : "")
    let doubtText =
      doubts.isEmpty
      ? (wasInDoubt ? style.green("  no longer in doubt") : "")
      : style.red(
        "  IN DOUBT: "
          + doubts.map { $0.wording(since: style.time) }.joined(separator: "; ").printable)
    return style.dim(style.time(time)) + " "
      + style.colorByIndex(color, node.printable.padded(to: nodeWidth))
      + "  \(state.stateText(fields: fields).printable)  "
      + style.dim("(\(note.printable))") + doubtText
  }

  /// The JSON for `-o json` and `-o jsonl`.
  package var record: JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(node), "incarnation": .count(incarnation),
      "version": .count(version),
      "time": .string(Timestamp(nanoseconds: time).description), "cause": .string(cause),
      "state": state, "missed": .count(missedCount), "isIntermediate": .bool(isIntermediate),
      "doubts": .array(doubts.map(\.record)),
    ]
    if let summary {
      record["counters"] = summary.status?.counters ?? .null
      record["transitions"] = summary.transitions.flatMap { try? JSONValue(encoding: $0) } ?? .null
    }
    return .object(record)
  }
}
