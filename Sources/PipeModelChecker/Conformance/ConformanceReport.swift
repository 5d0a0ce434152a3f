import PipeMachines
import PipeWire

/// The result of the comparison of a recorded run with its topology.
package struct ConformanceReport: Codable, Hashable, Sendable {
  /// A place at which the run does not conform.
  package struct Violation: Codable, Hashable, Sendable {
    package enum Code: String, Codable, Hashable, Sendable {
      /// A log lacks steps that the node has taken.
      case missingSteps = "missing-steps"
      /// The state before a step is not the state after the previous step.
      case otherState = "other-state"
      /// The machine does not take the step that the node has taken.
      case otherStep = "other-step"
      /// The step has sent other events than the machine sends.
      case otherEvents = "other-events"
      /// The node has received an event that its sender has not sent.
      case unknownEvent = "unknown-event"
      /// The node has consumed an event twice.
      case repeatedEvent = "repeated-event"
      /// The node has consumed a later event, but not this one.
      case lostEvent = "lost-event"
      /// Some participants of a synchronized event have taken the step, and others have not.
      case tornTransaction = "torn-transaction"
      /// Nodes have taken synchronized events in contradictory orders.
      case contradictoryOrder = "contradictory-order"
    }

    package var code: Code
    package var node: String
    package var incarnation: UInt64
    package var version: UInt64
    package var message: String
  }

  /// The number of compared steps.
  package var steps = 0
  /// The number of steps that the program cannot compute alone, because their transitions are
  /// asynchronous.
  package var unverifiedSteps = 0
  /// The number of events of pipes whose sender and receiver were compared.
  package var events = 0
  /// The number of synchronized events.
  package var transactions = 0
  /// The nodes without a step log: nodes with a `key`, constant nodes and monitors.
  package var unrecordedNodes: [String] = []
  /// The violations in the order of their discovery, up to ``maximumViolations``.
  package private(set) var violations: [Violation] = []
  /// The number of violations, including the ones beyond the limit.
  package private(set) var violationCount = 0

  /// The maximum number of listed violations.
  package static let maximumViolations = 100

  package init() {}

  mutating func add(
    _ code: Violation.Code, _ line: StepLogLine, _ message: String
  ) {
    violationCount += 1
    guard violations.count < Self.maximumViolations else { return }
    violations.append(
      Violation(
        code: code, node: line.node, incarnation: line.incarnation, version: line.version,
        message: message))
  }
}

extension ConformanceReport.Violation: CustomStringConvertible {
  /// The violation as a line: `gate@17 (incarnation 2): …`.
  package var description: String {
    "\(node)@\(version) (incarnation \(incarnation)): \(message) [\(code.rawValue)]"
  }
}
