import PipeMachines
import PipeWire

// What a participant knows of the end of what it has promised.
extension Participation {
  /// What it has promised to take together with others, or is just taking; `nil` where it is free.
  func promise(of node: String) -> Doubt? {
    guard let step = participant.step else { return nil }
    let body = SynchronizedBody(step.event)
    return Doubt(
      participant: node, composite: body?.composite ?? "", event: body?.eventName ?? "",
      transaction: step.transaction, since: promisedAt)
  }

  /// The promise whose end it has asked for and is not told.
  func doubt(of node: String) -> Doubt? { isInDoubt ? promise(of: node) : nil }
}

extension RendezvousParticipant {
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
