import PipeSupport
import PipeWire

/// A trace as text. Each step is indented below the step that caused it. The steps of participants
/// are indented below their synchronized event.
struct TextTrace {
  private let trace: Trace
  /// For each step, the indices of the steps that it has caused.
  private var causedSteps: [[Int]]
  private let startTime: Int64
  private let width: Int

  /// The maximum indentation. In longer chains of causes, further steps are not indented more.
  private static let maximumDepth = 16
  /// The maximum width of a text; longer texts are cut. Unit: columns.
  private static let maximumTextWidth = 80

  init(_ trace: Trace) {
    self.trace = trace
    causedSteps = Array(repeating: [], count: trace.steps.count)
    for (index, step) in trace.steps.enumerated() {
      if let cause = step.causeIndex { causedSteps[cause].append(index) }
    }
    startTime = trace.steps.first?.time ?? 0
    width = (trace.nodes + trace.steps.map(\.name)).map(\.displayWidth).max() ?? 0
  }

  func write(to write: (String) throws -> Void) throws {
    var writtenEvents: Set<Int> = []
    for (index, step) in trace.steps.enumerated() where step.causeIndex == nil {
      if let number = step.synchronizedEventIndex {
        guard writtenEvents.insert(number).inserted else { continue }
        let synchronizedEvent = trace.synchronizedEvents[number]
        try write(
          "\(timeText(synchronizedEvent.startTime))  \(Self.truncated(synchronizedEvent.event)), synchronized by "
            + "\(synchronizedEvent.name.printable)  (transaction \(synchronizedEvent.transaction))\n"
        )
        let isComposite = { trace.composites.contains(trace.steps[$0].node) }
        for index in synchronizedEvent.stepIndices where !isComposite(index) {
          try writeTree(index, depth: 1, write)
        }
        for index in synchronizedEvent.stepIndices where isComposite(index) {
          try writeTree(index, depth: 1, write)
        }
      } else {
        try writeTree(index, depth: 0, write)
      }
    }
    for (node, count) in trace.missingStepCounts.sorted(by: { $0.key < $1.key }) {
      try write("\(node.printable): \(count) steps were not reported\n")
    }
  }

  /// Writes a step, followed by all steps that it has caused.
  private func writeTree(_ index: Int, depth: Int, _ write: (String) throws -> Void) throws {
    var open = [(index: index, depth: depth)]
    while let (index, depth) = open.popLast() {
      let step = trace.steps[index]
      try write(line(of: step, depth))
      for next in causedSteps[index].reversed() { open.append((next, depth + 1)) }
    }
  }

  private func line(of step: Trace.Step, _ depth: Int) -> String {
    let indent = String(repeating: "  ", count: min(depth, Self.maximumDepth))
    let from = step.nodeStep.from.map { Self.truncated($0.caseText) + " " } ?? ""
    let hasSkipped = step.synchronizedEventIndex != nil
    let event = hasSkipped ? "→ " : "--\(Self.truncated(step.eventText))→ "
    let origin = hasSkipped ? "" : "  (\(step.origin.printable))"
    return "\(timeText(step.time))  \(indent)\(step.name.printable.padded(to: width))  "
      + "\(from)\(event)\(Self.truncated(step.stateText))\(origin)\n"
  }

  private static func truncated(_ text: String) -> String {
    text.printable.cut(to: maximumTextWidth)
  }

  /// Returns the time since the first step, in seconds: `   1.234567`.
  private func timeText(_ nanoseconds: Int64) -> String {
    let microseconds = (nanoseconds - startTime) / 1_000
    let parts = String(1_000_000 + microseconds % 1_000_000).dropFirst()
    let text = "\(microseconds / 1_000_000).\(parts)"
    return String(repeating: " ", count: max(0, 11 - text.count)) + text
  }
}
