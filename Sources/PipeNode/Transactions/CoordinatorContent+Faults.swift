import PipeSupport

// What a coordinator does about what should not happen.
extension CoordinatorContent {
  /// Waits no longer for those who are in none of the composites any more: they will not answer.
  func release(except participants: Set<String>) {
    for transaction in coordinator.transactionsUnderWay {
      for gone in transaction.participants where !participants.contains(gone) {
        log.warning(
          "synchronized event \(transaction.id) was committed, and '\(gone)' has not said that it "
            + "knows; it takes part no more, and is not waited for")
        perform(coordinator.received(.ack(transaction.id), from: gone))
      }
    }
  }

  func report(_ problem: CoordinatorProblem) {
    switch problem {
    case .queryOfForgotten(let transaction, let participant):
      log.warning(
        "participant '\(participant)' has promised to take synchronized event \(transaction), of "
          + "which nothing is known any more: the journal is not the one that this composite had, or "
          + "the composites were renamed. It is told that the event was given up. Where others have "
          + "taken it, their states do not agree now")
    }
  }

  /// Says that the coordinator is at this place; cuts its connections where it is told to.
  /// - Parameter participant: Whom the place is about; `nil` where it is about all.
  func reach(_ point: Failpoint, with participant: String? = nil) {
    guard Failpoint.hit(point) else { return }
    for (name, link) in links where participant == nil || name == participant { link.cut() }
  }
}
