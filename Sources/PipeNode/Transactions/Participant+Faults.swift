import PipeMachines
import PipeSupport
import PipeWire

// What a participant does about what should not happen.
extension Participant {
  /// Says, once, that nobody has told how the event has ended that is promised.
  func noteInDoubt(after cause: String) {
    guard !hasToldInDoubt, case .prepared(let step) = state.phase else { return }
    hasToldInDoubt = true
    log.note(
      "synchronized event \(step.transaction) is in doubt after \(cause): the node has promised to "
        + "take it, and asks '\(configuration.coordinator)' how it has ended")
  }

  /// Says how an event has ended that was in doubt.
  func noteEnd(of transaction: TransactionID, _ end: String) {
    guard hasToldInDoubt, case .prepared(let step) = state.phase,
      step.transaction == transaction
    else { return }
    hasToldInDoubt = false
    log.note("synchronized event \(transaction) is in doubt no more: it was \(end)")
  }

  /// Says that the node is at this place; cuts the connections at its inbox where it is told to.
  func reach(_ point: Failpoint) {
    if Failpoint.hit(point) { services.cut() }
  }

  func report(_ problem: ParticipantProblem) {
    switch problem {
    case .commitOfUnknown(let transaction):
      log.warning(
        "synchronized event \(transaction) was committed, and this node knows nothing of it: "
          + "the process that had agreed is gone, and kept no journal, or its journal is gone. "
          + "The step is lost")
      // Else the coordinator would tell it for ever.
      send(ParticipantMessage.ack(transaction))
    case .abortOfCommitted(let transaction):
      log.warning(
        "synchronized event \(transaction) was committed here, and the coordinator says that it was "
          + "not: its journal is not the one it had")
    }
  }
}
