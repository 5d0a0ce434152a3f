import PipeSupport
import PipeWire

/// A trace as a Mermaid sequence diagram: an arrow for each event, a note for each synchronized event.
struct MermaidTrace {
  private let trace: Trace
  private let numbers: [String: Int]

  /// The maximum number of steps in a diagram. A longer diagram is unreadable, and Mermaid refuses it.
  static let limit = 300
  /// The number of columns at which a text is cut.
  private static let textLimit = 60

  init(_ trace: Trace) {
    self.trace = trace
    numbers = Dictionary(
      uniqueKeysWithValues: trace.nodes.enumerated().map { ($0.element, $0.offset) })
  }

  func write(to write: (String) throws -> Void) throws {
    let drawn = trace.steps.prefix(Self.limit)
    try write("sequenceDiagram\n")
    if drawn.contains(where: { $0.step.request != nil }) { try write("  actor client\n") }
    let shown = Set(drawn.map(\.node)).subtracting(trace.composites)
    for node in trace.nodes where shown.contains(node) {
      try write("  participant \(name(node)) as \(Self.escaped(node))\n")
    }
    var told: Set<Int> = []
    for step in drawn {
      if let meeting = step.meeting {
        guard told.insert(meeting).inserted else { continue }
        try write(note(about: trace.meetings[meeting]))
      } else if !trace.composites.contains(step.node) {
        try write(arrow(to: step))
      }
    }
    let left = trace.steps.count - drawn.count
    if left > 0, let node = trace.nodes.first(where: shown.contains) {
      try write("  Note over \(name(node)): \(left) more steps omitted\n")
    }
  }

  private func name(_ node: String) -> String { "n\((numbers[node] ?? 0) + 1)" }

  private func arrow(to step: Trace.Step) -> String {
    let source: String =
      if let cause = step.cause {
        name(trace.steps[cause].node)
      } else if step.step.request != nil {
        "client"
      } else {
        name(step.node)
      }
    let text = Self.escaped(step.eventText) + " [" + Self.escaped(step.stateText) + "]"
    return "  \(source)->>\(name(step.node)): \(text)\n"
  }

  private func note(about meeting: Trace.Meeting) -> String {
    // Composites moved together with these nodes, and have no lifelines of their own.
    let steps = meeting.steps.map { trace.steps[$0] }.filter { !trace.composites.contains($0.node) }
    let places = steps.compactMap { numbers[$0.node] }
    guard let first = places.min(), let last = places.max() else { return "" }
    let span = first == last ? "n\(first + 1)" : "n\(first + 1),n\(last + 1)"
    let states = steps.map { Self.escaped("\($0.node): \($0.stateText)") }
    return "  Note over \(span): \(Self.escaped(meeting.event)) together<br/>"
      + states.joined(separator: "<br/>") + "\n"
  }

  /// Returns a text with Mermaid's special characters as character numbers.
  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for scalar in text.printable.cut(to: textLimit).unicodeScalars {
      if "#;<>&\"\\:".unicodeScalars.contains(scalar) {
        escaped += "#\(scalar.value);"
      } else {
        escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }
}
