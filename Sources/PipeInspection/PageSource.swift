import PipeMachines

/// What an inspector's page shows: of a topology that runs, or of one that was recorded.
package protocol PageSource: Sendable {
  /// What has happened, and how all stands.
  var recorder: InspectionRecorder { get }
  /// Answers a question about the present.
  /// - Throws: ``PageProblem``.
  func answer(_ question: PageQuestion) async throws -> JSONValue
}

/// What a page asks, or asks for.
package enum PageQuestion: Hashable, Sendable {
  /// What a node's machine is.
  case machine(node: String)
  /// Which events a node, or a composite, takes now, and why it withholds the others.
  case enabled(node: String)
  /// The state of a node, however large it is.
  case state(node: String)
  /// The dead letters of a node.
  case letters(node: String)
  /// Sends an event.
  case send(node: String, event: JSONValue)
  /// Has a dead letter taken again, or drops it.
  case letter(node: String, id: UInt64, drops: Bool)
}

/// Why a question has no answer.
package struct PageProblem: Error, Hashable, Sendable {
  /// In words, with what to do.
  package var reason: String

  package init(_ reason: String) { self.reason = reason }
}
