import PipeMachines

/// The data source of an inspector's page, such as a running topology.
package protocol PageDataSource: Sendable {
  /// The recorded events and the current values.
  var recorder: InspectionRecorder { get }
  /// The time of the last entry of a recorded run; `nil` if the entries come from a running topology.
  /// Unit: nanoseconds since 1970.
  var endOfRun: Int64? { get }
  /// Answers a request about the current state of the topology.
  /// - Throws: ``InspectionRequestError``.
  func answer(_ request: InspectionRequest) async throws -> JSONValue
}

extension PageDataSource {
  package var endOfRun: Int64? { nil }
}

/// A request that the inspector's page sends.
package enum InspectionRequest: Hashable, Sendable {
  /// The description of a node's machine.
  case machine(node: String)
  /// The events that a node or a composite accepts now, and the reasons why other events are
  /// blocked.
  case enabled(node: String)
  /// The complete state of a node.
  case state(node: String)
  /// The dead letters of a node.
  case deadLetters(node: String)
  /// Sends an event.
  case send(node: String, event: JSONValue)
  /// Returns the state chart of a node's machine.
  case chart(node: String)
  /// Starts, stops, restarts or kills a node.
  case control(node: String, NodeControlAction)
  /// Resends a dead letter, or drops it.
  case deadLetter(node: String, id: UInt64, drops: Bool)
}

/// A command to a node's process.
package enum NodeControlAction: String, Hashable, Sendable, CaseIterable {
  /// Starts a node that is stopped or failed.
  case start
  /// Stops the node gracefully, and keeps it stopped.
  case stop
  /// Stops the node gracefully, and starts it again.
  case restart
  /// Sends SIGKILL to the node's process. The restart policy applies.
  case kill
}

/// The reason why a request cannot be answered.
package struct InspectionRequestError: Error, Hashable, Sendable {
  /// A sentence for the user, which says what to do.
  package var reason: String

  package init(_ reason: String) { self.reason = reason }
}
