import PipeRuntime

/// A step, or an event of a pipe, as `monitor` writes it: with what was lost before it.
package struct FollowedMessage: Hashable, Sendable {
  package enum Content: Hashable, Sendable {
    case step(NodeStep)
    case event(TappedEvent)
  }

  package var content: Content
  /// How many before it were told and did not come, since the reader was too slow.
  package var lost: UInt64

  package init(_ content: Content, lost: UInt64 = 0) {
    self.content = content
    self.lost = lost
  }
}

/// Finds by the numbers of what is told what was lost on the way.
package struct FollowedNumbers: Sendable {
  /// What is numbered through: the steps of a process, or the events of a stream.
  private enum Numbering: Hashable, Sendable {
    case process(String, UInt64)
    case stream(String, UInt64)
  }

  private var last: [Numbering: UInt64] = [:]

  package init() {}

  package mutating func take(_ message: FeedMessage) -> FollowedMessage {
    switch message {
    case .step(let step):
      let lost = lost(before: step.place, step.skipped, of: .process(step.node, step.incarnation))
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
    let told = skipped ?? 1
    return number - before > told ? number - before - told : 0
  }
}

extension FollowedMessage {
  /// The lines for a person: what was lost, and what was told.
  package func lines(nodeWidth: Int, fields: [String]? = nil, style: Style, color: Int = 0)
    -> [String]
  {
    let (time, name, text) =
      switch content {
      case .step(let step): (step.time, step.node, step.text(fields: fields, style))
      case .event(let event): (event.time, event.node, event.text(style))
      }
    // What tells of what is left out has no time of its own.
    let moment = time.map { style.time($0) } ?? String(repeating: " ", count: style.time(0).count)
    let head =
      style.dim(moment) + " "
      + style.number(color, name.printable.padded(to: nodeWidth)) + "  "
    return (lost > 0 ? [head + style.red("\(lost) lost: they came too fast")] : []) + [head + text]
  }

  /// The JSON form of `-o json` and `-o jsonl`.
  package var record: JSONValue {
    let (told, time) =
      switch content {
      case .step(let step): (try? JSONValue(encoding: step), step.time)
      case .event(let event): (try? JSONValue(encoding: event), event.time)
      }
    guard case .object(var record)? = told else { return .null }
    if let time { record["time"] = .string(Timestamp(nanoseconds: time).description) }
    record["lost"] = .count(lost)
    return .object(record)
  }
}

extension NodeStep {
  /// `idle --go--> busy  (a.out->b.in 17)  version 4, sends b.out->c.in 5: placed(id: 1)`
  fileprivate func text(fields: [String]?, _ style: Style) -> String {
    if let skipped { return style.dim("\(skipped) steps not told, up to version \(version)") }
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
    if let skipped { return style.dim("\(skipped) events not told, up to number \(number)") }
    return "\(style.dim(String(number)))  \((event?.caseText ?? "?").printable)"
  }
}
