import PipeMachines
import PipeSystem
import PipeWire

/// The result of the comparison of a recorded run with its topology.
package struct ConformanceReport: Codable, Hashable, Sendable {
  /// A line of a log at which the run does not conform to the topology.
  package struct Violation: Codable, Hashable, Sendable {
    package enum Code: String, Codable, Hashable, Sendable {
      /// A log lacks steps that the node has taken.
      case missingSteps = "missing-steps"
      /// The run has no log of a node, although other nodes have consumed the node's events, or
      /// have taken part in a synchronized event with the node.
      case missingLog = "missing-log"
      /// A process of a node does not begin in the state in which the node's previous process
      /// ended.
      case otherState = "other-state"
      /// The machine does not take the step that the node has taken.
      case otherStep = "other-step"
      /// In the run, the step sent other events than the machine sends when the comparison repeats
      /// the step.
      case otherEvents = "other-events"
      /// The node has consumed an event that the pipe's sender has not sent, or has sent with other
      /// content.
      case unknownEvent = "unknown-event"
      /// The node has consumed an event twice.
      case repeatedEvent = "repeated-event"
      /// The node has consumed an event of a pipe, but not an earlier event of the same pipe.
      case lostEvent = "lost-event"
      /// Some participants of a synchronized event have taken their steps, and others have not.
      case tornTransaction = "torn-transaction"
      /// Nodes have taken synchronized events in contradictory orders.
      case contradictoryOrder = "contradictory-order"
    }

    package var code: Code
    package var node: String
    package var incarnation: UInt64
    package var version: UInt64
    /// The name of the log's file.
    package var file: String
    /// The number of the line in the log.
    package var line: Int
    package var message: String
  }

  /// The number of steps in the logs, including ``unverifiedSteps``.
  package var steps = 0
  /// The number of steps that were not compared: their transitions are asynchronous, or they follow
  /// a step that does not conform.
  package var unverifiedSteps = 0
  /// The number of consumed events that were compared with the events that the pipe's sender sent.
  package var events = 0
  /// The number of synchronized events.
  package var transactions = 0
  /// The nodes without a step log: nodes with a `key`, constant nodes and monitors.
  package var unrecordedNodes: [String] = []
  /// The incomplete lines at the ends of logs, as `FILE:LINE`. The comparison ignores these lines.
  package var tornLines: [String] = []
  /// The programs that have changed since the run was recorded.
  package var changedPrograms: [String] = []
  /// The violations in the order of their discovery, up to ``maximumViolations``.
  package private(set) var violations: [Violation] = []
  /// The number of violations, including violations beyond ``maximumViolations``.
  package private(set) var violationCount = 0

  /// The maximum number of listed violations.
  package static let maximumViolations = 100

  package init() {}

  mutating func add(
    _ code: Violation.Code, _ scan: NodeScan, _ place: NodeScan.Place, _ message: String
  ) {
    violationCount += 1
    guard violations.count < Self.maximumViolations else { return }
    let log = scan.logs[place.log]
    violations.append(
      Violation(
        code: code, node: scan.node, incarnation: log.header.incarnation, version: place.version,
        file: log.name, line: place.line, message: message))
  }

  /// Counts violations that are not listed.
  mutating func add(unlisted count: Int) { violationCount += count }
}

extension ConformanceReport.Violation: CustomStringConvertible {
  /// The violation as a line: `gate@17 (gate.2.steps.jsonl:18): …`.
  package var description: String {
    "\(node)@\(version) (\(file):\(line)): \(message) [\(code.rawValue)]"
  }
}
