import PipeWire

// Whom the coordinator can ask, and what is under way.
extension CoordinatorContent {
  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void) {
    let explanation = CoordinatorExplanation(
      connected: coordinator.connectedParticipants.sorted(),
      transactions: coordinator.undecided.map { transaction in
        CoordinatorExplanation.Transaction(
          transaction: "\(transaction.id)", participants: transaction.participants)
      })
    reply(.explained(by: explanation))
  }
}
