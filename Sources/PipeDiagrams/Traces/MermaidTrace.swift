import PipeSupport
import PipeWire

/// A trace as a Mermaid sequence diagram, with an arrow for each event, and a note for each
/// synchronized event.
struct MermaidTrace {
  private let trace: Trace
  private let nodeNumbers: [String: Int]

  /// The maximum number of steps in a diagram. Mermaid rejects longer diagrams.
  static let maximumStepCount = 300
  /// The maximum width of a text. Longer texts are cut. Unit: columns.
  private static let maximumTextWidth = 60

  init(_ trace: Trace) {
    self.trace = trace
    nodeNumbers = Dictionary(
      uniqueKeysWithValues: trace.nodes.enumerated().map { ($0.element, $0.offset) })
  }

  func write(to write: (String) throws -> Void) throws {
    let drawnSteps = trace.steps.prefix(Self.maximumStepCount)
    try write("sequenceDiagram\n")
    if drawnSteps.contains(where: { $0.nodeStep.request != nil }) { try write("  actor client\n") }
    let shownNodes = Set(drawnSteps.map(\.node)).subtracting(trace.composites)
    for node in trace.nodes where shownNodes.contains(node) {
      try write("  participant \(participantName(node)) as \(Self.escaped(node))\n")
    }
    var writtenEvents: Set<Int> = []
    for step in drawnSteps {
      if let synchronizedEvent = step.synchronizedEventIndex {
        guard writtenEvents.insert(synchronizedEvent).inserted else { continue }
        try write(note(about: trace.synchronizedEvents[synchronizedEvent]))
      } else if !trace.composites.contains(step.node) {
        try write(arrow(to: step))
      }
    }
    let omittedCount = trace.steps.count - drawnSteps.count
    if omittedCount > 0, let node = trace.nodes.first(where: shownNodes.contains) {
      try write("  Note over \(participantName(node)): \(omittedCount) more steps omitted\n")
    }
  }

  private func participantName(_ node: String) -> String { "n\((nodeNumbers[node] ?? 0) + 1)" }

  private func arrow(to step: Trace.Step) -> String {
    let source: String =
      if let cause = step.causeIndex {
        participantName(trace.steps[cause].node)
      } else if step.nodeStep.request != nil {
        "client"
      } else {
        participantName(step.node)
      }
    let text = Self.escaped(step.eventText) + " [" + Self.escaped(step.stateText) + "]"
    return "  \(source)->>\(participantName(step.node)): \(text)\n"
  }

  private func note(about synchronizedEvent: Trace.SynchronizedEvent) -> String {
    // Composites have no lifelines, since their steps are the steps of their nodes.
    let steps = synchronizedEvent.stepIndices.map { trace.steps[$0] }.filter {
      !trace.composites.contains($0.node)
    }
    let positions = steps.compactMap { nodeNumbers[$0.node] }
    guard let first = positions.min(), let last = positions.max() else { return "" }
    let span = first == last ? "n\(first + 1)" : "n\(first + 1),n\(last + 1)"
    let states = steps.map { Self.escaped("\($0.name): \($0.stateText)") }
    return "  Note over \(span): \(Self.escaped(synchronizedEvent.event)) together<br/>"
      + states.joined(separator: "<br/>") + "\n"
  }

  /// Returns a text in which Mermaid's special characters are written as character numbers.
  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for scalar in text.printable.cut(to: maximumTextWidth).unicodeScalars {
      if "#;<>&\"\\:".unicodeScalars.contains(scalar) {
        escaped += "#\(scalar.value);"
      } else {
        escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }
}
