import PipeRuntime

extension StateChange {
  /// `2026-11-20T09:00:00.123Z door  closing(persons: 3)  (request)`, with the time of the style.
  /// - Parameters:
  ///   - fields: The names of the state's fields where that is a struct.
  ///   - wasInDoubt: Whether the line before was.
  package func line(
    nodeWidth: Int, fields: [String]? = nil, style: Style = Style(isColored: false), color: Int = 0,
    wasInDoubt: Bool = false
  ) -> String {
    // Who asks for the latest states has not missed those in between.
    let between = summary == nil ? "missed before" : "more before"
    let note =
      cause + (isPassing ? ", on the way" : "") + (missed > 0 ? "; \(missed) \(between)" : "")
    let doubt =
      doubts.isEmpty
      ? (wasInDoubt ? style.green("  not in doubt any more") : "")
      : style.red(
        "  IN DOUBT: "
          + doubts.map { $0.wording(since: style.time) }.joined(separator: "; ").printable)
    return style.dim(style.time(time)) + " "
      + style.number(color, node.printable.padded(to: nodeWidth))
      + "  \(state.stateText(fields: fields).printable)  "
      + style.dim("(\(note.printable))") + doubt
  }

  /// The JSON form of `-o json` and `-o jsonl`.
  package var record: JSONValue {
    var record: [String: JSONValue] = [
      "node": .string(node), "incarnation": .count(incarnation),
      "version": .count(version),
      "time": .string(Timestamp(nanoseconds: time).description), "cause": .string(cause),
      "state": state, "missed": .count(missed), "passing": .bool(isPassing),
      "doubts": .array(doubts.map(\.record)),
    ]
    if let summary {
      record["counters"] = summary.status?.counters ?? .null
      record["transitions"] = summary.transitions.flatMap { try? JSONValue(encoding: $0) } ?? .null
    }
    return .object(record)
  }
}
