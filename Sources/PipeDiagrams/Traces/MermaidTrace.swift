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
    let drawnSteps = trace.steps.prefix(Self.limit)
    try write("sequenceDiagram\n")
    if drawnSteps.contains(where: { $0.step.request != nil }) { try write("  actor client\n") }
    let shownNodes = Set(drawnSteps.map(\.node)).subtracting(trace.composites)
    for node in trace.nodes where shownNodes.contains(node) {
      try write("  participant \(name(node)) as \(Self.escaped(node))\n")
    }
    var writtenEvents: Set<Int> = []
    for step in drawnSteps {
      if let synchronizedEvent = step.synchronizedEvent {
        guard writtenEvents.insert(synchronizedEvent).inserted else { continue }
        try write(note(about: trace.synchronizedEvents[synchronizedEvent]))
      } else if !trace.composites.contains(step.node) {
        try write(arrow(to: step))
      }
    }
    let omittedCount = trace.steps.count - drawnSteps.count
    if omittedCount > 0, let node = trace.nodes.first(where: shownNodes.contains) {
      try write("  Note over \(name(node)): \(omittedCount) more steps omitted\n")
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

  private func note(about synchronizedEvent: Trace.SynchronizedEvent) -> String {
    // Composites moved together with these nodes, and have no lifelines of their own.
    let steps = synchronizedEvent.steps.map { trace.steps[$0] }.filter {
      !trace.composites.contains($0.node)
    }
    let positions = steps.compactMap { numbers[$0.node] }
    guard let first = positions.min(), let last = positions.max() else { return "" }
    let span = first == last ? "n\(first + 1)" : "n\(first + 1),n\(last + 1)"
    let states = steps.map { Self.escaped("\($0.node): \($0.stateText)") }
    return "  Note over \(span): \(Self.escaped(synchronizedEvent.event)) together<br/>"
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
