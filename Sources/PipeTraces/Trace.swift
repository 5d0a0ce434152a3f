import PipeMachines
import PipeWire

/// What the steps of several nodes tell of a run as a whole.
package struct Trace: Sendable {
  /// A step, and what it has to do with others.
  package struct Step: Sendable {
    package var step: NodeStep
    /// Unit: nanoseconds since 1970.
    package var time: Int64
    /// The step that sent what this one took: its place in ``Trace/steps``.
    package var cause: Int?
    /// The synchronized event that it is part of: its place in ``Trace/meetings``.
    package var meeting: Int?
  }

  /// A synchronized event: the steps that are part of it.
  package struct Meeting: Sendable {
    package var transaction: TransactionID
    /// The composite that has committed it, or the participants, where that is not known.
    package var name: String
    package var event: String
    /// Their places in ``Trace/steps``.
    package var steps: [Int]
    /// The first and the last time among them. Unit: nanoseconds since 1970.
    package var start: Int64
    package var end: Int64
  }

  package var topology: String
  /// Whose steps were followed, in the order of the file.
  package var nodes: [String]
  /// Those of them that are composites.
  package var composites: Set<String>
  /// In the order of their times.
  package var steps: [Step]
  package var meetings: [Meeting]
  /// How many steps of a node were not told.
  package var untold: [String: UInt64]
}

extension Trace.Step {
  package var node: String { step.node }

  /// The event, as a person reads it; what has caused the step, where it had none.
  package var eventText: String { step.event?.caseText ?? step.cause ?? "?" }

  /// The name of the event, without its values.
  package var eventName: String { step.event?.caseName ?? step.cause ?? "?" }

  /// The state that it has led to.
  package var stateText: String { step.state?.caseText ?? "?" }

  /// Where what it took came from: a pipe and a number, a client's request, an effect.
  package var origin: String {
    if let source = step.source { return "\(source.pipe) \(source.number)" }
    if let request = step.request { return "request \(request.number) of client \(request.client)" }
    if let transaction = step.transaction { return "transaction \(transaction)" }
    if let effect = step.effect { return "effect of version \(effect)" }
    return step.cause ?? "?"
  }
}
