import PipeSupport
import PipeWire

/// A trace as text for people: each step below its cause, and the steps of a synchronized event
/// below the event.
struct TextTrace {
  private let trace: Trace
  /// For each step, the steps that it caused.
  private var caused: [[Int]]
  private let start: Int64
  private let width: Int

  /// The maximum indentation: steps with a longer chain of causes are not indented further.
  private static let maximumDepth = 16
  /// The number of columns at which a text is cut.
  private static let textLimit = 80

  init(_ trace: Trace) {
    self.trace = trace
    caused = Array(repeating: [], count: trace.steps.count)
    for (index, step) in trace.steps.enumerated() {
      if let cause = step.cause { caused[cause].append(index) }
    }
    start = trace.steps.first?.time ?? 0
    width = trace.nodes.map(\.displayWidth).max() ?? 0
  }

  func write(to write: (String) throws -> Void) throws {
    var writtenEvents: Set<Int> = []
    for (index, step) in trace.steps.enumerated() where step.cause == nil {
      if let number = step.synchronizedEvent {
        guard writtenEvents.insert(number).inserted else { continue }
        let synchronizedEvent = trace.synchronizedEvents[number]
        try write(
          "\(time(synchronizedEvent.start))  \(Self.cut(synchronizedEvent.event)), synchronized by "
            + "\(synchronizedEvent.name.printable)  (transaction \(synchronizedEvent.transaction))\n"
        )
        let isComposite = { trace.composites.contains(trace.steps[$0].node) }
        for index in synchronizedEvent.steps where !isComposite(index) {
          try writeTree(index, depth: 1, write)
        }
        for index in synchronizedEvent.steps where isComposite(index) {
          try writeTree(index, depth: 1, write)
        }
      } else {
        try writeTree(index, depth: 0, write)
      }
    }
    for (node, count) in trace.untold.sorted(by: { $0.key < $1.key }) {
      try write("\(node.printable): \(count) steps were not reported\n")
    }
  }

  /// Writes a step, and all steps that it caused.
  private func writeTree(_ index: Int, depth: Int, _ write: (String) throws -> Void) throws {
    var open = [(index: index, depth: depth)]
    while let (index, depth) = open.popLast() {
      let step = trace.steps[index]
      try write(line(of: step, depth))
      for next in caused[index].reversed() { open.append((next, depth + 1)) }
    }
  }

  private func line(of step: Trace.Step, _ depth: Int) -> String {
    let indent = String(repeating: "  ", count: min(depth, Self.maximumDepth))
    let from = step.step.from.map { Self.cut($0.caseText) + " " } ?? ""
    let hasSkipped = step.synchronizedEvent != nil
    let event = hasSkipped ? "→ " : "--\(Self.cut(step.eventText))→ "
    let origin = hasSkipped ? "" : "  (\(step.origin.printable))"
    return "\(time(step.time))  \(indent)\(step.node.printable.padded(to: width))  "
      + "\(from)\(event)\(Self.cut(step.stateText))\(origin)\n"
  }

  private static func cut(_ text: String) -> String { text.printable.cut(to: textLimit) }

  /// Returns the time since the first step, in seconds: `   1.234567`.
  private func time(_ nanoseconds: Int64) -> String {
    let microseconds = (nanoseconds - start) / 1_000
    let parts = String(1_000_000 + microseconds % 1_000_000).dropFirst()
    let text = "\(microseconds / 1_000_000).\(parts)"
    return String(repeating: " ", count: max(0, 11 - text.count)) + text
  }
}
