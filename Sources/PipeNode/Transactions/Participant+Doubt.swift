import PipeMachines
import PipeWire

// What a participant knows of the end of what it has promised.
extension Participant {
  /// What it has promised to take together with others, or is just taking; `nil` where it is free.
  func prepared(of node: String) -> InDoubtTransaction? {
    guard let step = state.step else { return nil }
    let body = TransactionBody(step.event)
    return InDoubtTransaction(
      participant: node, composite: body?.composite ?? "", event: body?.eventName ?? "",
      transaction: step.transaction, since: preparedAt)
  }

  /// The promise whose end it has asked for and is not told.
  func inDoubt(of node: String) -> InDoubtTransaction? { isInDoubt ? prepared(of: node) : nil }
}

extension ParticipantStateMachine {
  /// The step that it has promised, or is taking.
  var step: PreparedStep? {
    switch phase {
    case .free: nil
    case .preparing(let step), .prepared(let step), .applying(let step), .delivering(let step): step
    }
  }

  /// Whether it has said yes, and waits for the end.
  var isPrepared: Bool {
    if case .prepared = phase { true } else { false }
  }
}
