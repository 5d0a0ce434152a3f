import PipeRuntime

/// Writes states, steps and events in the format that `-o` selects.
struct LineWriter {
  private let nodes: [NodeInformation]
  private let format: OutputFormat
  /// Unit: lines.
  private let limit: Int
  private let width: Int
  private var count = 0
  private var records: [JSONValue] = []
  /// The transactions in doubt that the last line of each node showed.
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
      // Text lines show no counters, so a repeated state has nothing new.
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

/// A step, or an event of a pipe, as `monitor` writes it, with the number of messages lost before
/// it.
package struct FollowedMessage: Hashable, Sendable {
  package enum Content: Hashable, Sendable {
    case step(NodeStep)
    case event(TappedEvent)
  }

  package var content: Content
  /// The number of messages before it that were sent and lost because the reader was too slow.
  package var lost: UInt64

  package init(_ content: Content, lost: UInt64 = 0) {
    self.content = content
    self.lost = lost
  }
}

/// Finds lost messages by the gaps in their numbers.
package struct LostMessageDetector: Sendable {
  /// A sequence of numbers: the steps of a process, or the events of a stream.
  private enum Numbering: Hashable, Sendable {
    case process(String, UInt64)
    case stream(String, UInt64)
  }

  private var last: [Numbering: UInt64] = [:]

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
    before number: UInt64, _ skipped: UInt64?, of numbering: Numbering
  ) -> UInt64 {
    let before = last.updateValue(number, forKey: numbering)
    guard let before, number > before else { return 0 }
    let reported = skipped ?? 1
    return number - before > reported ? number - before - reported : 0
  }
}

extension FollowedMessage {
  /// The lines for a person: the number of lost messages, if any, and the message.
  package func lines(nodeWidth: Int, fields: [String]? = nil, style: Style, color: Int = 0)
    -> [String]
  {
    let (time, name, text) =
      switch content {
      case .step(let step): (step.time, step.node, step.text(fields: fields, style))
      case .event(let event): (event.time, event.node, event.text(style))
      }
    // A message about skipped steps or events has no time.
    let timeText = time.map { style.time($0) } ?? String(repeating: " ", count: style.time(0).count)
    let linePrefix =
      style.dim(timeText) + " "
      + style.number(color, name.printable.padded(to: nodeWidth)) + "  "
    return (lost > 0 ? [linePrefix + style.red("\(lost) lost: the reader was too slow")] : []) + [
      linePrefix + text
    ]
  }

  /// The JSON form of `-o json` and `-o jsonl`.
  package var record: JSONValue {
    let (reported, time) =
      switch content {
      case .step(let step): (try? JSONValue(encoding: step), step.time)
      case .event(let event): (try? JSONValue(encoding: event), event.time)
      }
    guard case .object(var record)? = reported else { return .null }
    if let time { record["time"] = .string(Timestamp(nanoseconds: time).description) }
    record["lost"] = .count(lost)
    return .object(record)
  }
}

extension NodeStep {
  /// `idle --go--> busy  (a.out->b.in 17)  version 4, sends b.out->c.in 5: placed(id: 1)`
  fileprivate func text(fields: [String]?, _ style: Style) -> String {
    if let skipped { return style.dim("\(skipped) steps skipped, up to version \(version)") }
    let from = self.from.map { $0.stateText(fields: fields) + " " } ?? ""
    let state = self.state.map { $0.stateText(fields: fields) } ?? "?"
    let event = self.event.map { "--\($0.caseText)--> " } ?? "--> "
    let sends = (sent ?? []).map { "\($0.pipe) \($0.number): \($0.event?.caseText ?? "?")" }
    let note = "(\(origin))  version \(version)" + (sends.isEmpty ? "" : ", sends ")
    return (from + event + state).printable + "  " + style.dim(note.printable)
      + sends.joined(separator: ", ").printable
  }

  private var origin: String {
    if let source { return "\(source.pipe) \(source.number)" }
    let cause = self.cause ?? "?"
    if let request { return "\(cause) \(request.number) of client \(request.client)" }
    if let effect { return "\(cause) of version \(effect)" }
    return transaction.map { "\(cause), transaction \($0)" } ?? cause
  }
}

extension TappedEvent {
  /// `17  placed(id: 1)`
  fileprivate func text(_ style: Style) -> String {
    if let skipped { return style.dim("\(skipped) events skipped, up to number \(number)") }
    return "\(style.dim(String(number)))  \((event?.caseText ?? "?").printable)"
  }
}

extension StateChange {
  /// `2026-11-20T09:00:00.123Z door  closing(persons: 3)  (request)`, with the time of the style.
  /// - Parameters:
  ///   - fields: The names of the state's fields where that is a struct.
  ///   - wasInDoubt: Whether the node was in doubt in its previous line.
  package func line(
    nodeWidth: Int, fields: [String]? = nil, style: Style = Style(isColored: false), color: Int = 0,
    wasInDoubt: Bool = false
  ) -> String {
    // A client that asks for the latest states only has not missed those in between.
    let missedPhrase = summary == nil ? "missed before" : "more before"
    let note =
      cause + (isIntermediate ? ", intermediate" : "")
      + (missed > 0 ? "; \(missed) \(missedPhrase)" : "")
    let doubtText =
      doubts.isEmpty
      ? (wasInDoubt ? style.green("  no longer in doubt") : "")
      : style.red(
        "  IN DOUBT: "
          + doubts.map { $0.wording(since: style.time) }.joined(separator: "; ").printable)
    return style.dim(style.time(time)) + " "
      + style.number(color, node.printable.padded(to: nodeWidth))
      + "  \(state.stateText(fields: fields).printable)  "
      + style.dim("(\(note.printable))") + doubtText
  }

  /// The JSON form of `-o json` and `-o jsonl`.
  package var record: JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(node), "incarnation": .count(incarnation),
      "version": .count(version),
      "time": .string(Timestamp(nanoseconds: time).description), "cause": .string(cause),
      "state": state, "missed": .count(missed), "isIntermediate": .bool(isIntermediate),
      "doubts": .array(doubts.map(\.record)),
    ]
    if let summary {
      record["counters"] = summary.status?.counters ?? .null
      record["transitions"] = summary.transitions.flatMap { try? JSONValue(encoding: $0) } ?? .null
    }
    return .object(record)
  }
}
