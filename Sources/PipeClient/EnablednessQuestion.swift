import PipeMachines
import PipeWire

/// An event, and who is to be asked whether it is enabled.
package struct EnablednessQuestion: Hashable, Sendable {
  package var event: CaseDescription
  /// The composite through which it is taken; `nil` where one node takes it alone.
  package var composite: String?
  /// The process of that composite.
  package var coordinator: String?
  package var participants: [String]

  /// An event that a node takes for itself.
  package init(_ event: CaseDescription, of node: String) {
    self.event = event
    participants = [node]
  }

  /// An event that several nodes take together.
  package init(_ event: CaseDescription, _ vector: SyncVector, coordinator: String) {
    self.event = event
    composite = vector.composite
    self.coordinator = coordinator
    participants = vector.participants
  }
}

/// What one who was asked has told, or why it keeps the event from being taken.
package typealias NodeAnswer<Explanation> = Result<Explanation, EventObstacle>

extension EnablednessQuestion {
  /// The answer, from what the nodes and the coordinators have said.
  package func answer(
    nodes: [String: NodeAnswer<NodeExplanation>],
    coordinators: [String: NodeAnswer<CoordinatorExplanation>]
  ) -> EventEnabledness {
    var answers: [EventEnabledness.Answer] = []
    var links: CoordinatorExplanation?
    if let coordinator {
      switch coordinators[coordinator] {
      case .success(let explanation): links = explanation
      case .failure(let obstacle):
        answers.append(EventEnabledness.Answer(participant: coordinator, obstacle: obstacle))
      case nil: break
      }
    }
    for participant in participants {
      switch nodes[participant] {
      case .success(let explanation):
        answers.append(answer(of: participant, explanation, links))
      case .failure(let obstacle):
        answers.append(EventEnabledness.Answer(participant: participant, obstacle: obstacle))
      case nil: break
      }
    }
    return EventEnabledness(
      event: event, composite: composite, participants: participants, answers: answers)
  }

  private func answer(
    of participant: String, _ explanation: NodeExplanation, _ links: CoordinatorExplanation?
  ) -> EventEnabledness.Answer {
    let evaluation = explanation.events[event.name] ?? .refused(.noTransition)
    let obstacle =
      Self.hold(explanation.hold) ?? refusal(evaluation) ?? Self.full(explanation.hold)
      ?? links.flatMap { Self.obstacle(to: participant, $0) }
    let verdict = obstacle == nil ? Self.verdict(evaluation) : .withheld
    return EventEnabledness.Answer(
      participant: participant, state: explanation.state, version: explanation.version,
      verdict: verdict, obstacle: obstacle)
  }

  /// What an evaluation that is no refusal says.
  private static func verdict(_ evaluation: Evaluation) -> EventEnabledness.Verdict {
    switch evaluation {
    case .taken: .enabled
    case .byValue: .dependsOnValue
    case .asynchronous, .selfContained, .refused: .undetermined
    }
  }

  /// What may lead to another state, so that the present one does not count.
  private static func hold(_ hold: NodeExplanation.Hold?) -> EventObstacle? {
    switch hold {
    case .transaction(let prepared): .inTransaction(prepared.transaction)
    case .doubt(let doubt): .inDoubt(doubt)
    case .transition: .inTransition
    case .pipes, nil: nil
    }
  }

  private static func full(_ hold: NodeExplanation.Hold?) -> EventObstacle? {
    if case .pipes(let names) = hold { .pipesFull(names) } else { nil }
  }

  private func refusal(_ evaluation: Evaluation) -> EventObstacle? {
    switch evaluation {
    case .refused(.asynchronous), .asynchronous: composite == nil ? nil : .refused(.asynchronous)
    case .refused(let refusal): .refused(refusal)
    case .taken, .byValue, .selfContained: nil
    }
  }

  /// Why the coordinator could not ask the participant now.
  private static func obstacle(
    to participant: String, _ links: CoordinatorExplanation
  ) -> EventObstacle? {
    if let busy = links.transactions.first(where: { $0.participants.contains(participant) }) {
      return .inTransaction(busy.transaction)
    }
    return links.connected.contains(participant) ? nil : .notConnected
  }
}
