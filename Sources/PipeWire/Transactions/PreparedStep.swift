import PipeMachines

/// A step that a participant is ready to take.
package struct PreparedStep: Hashable, Sendable {
  package var transaction: TransactionID
  package var event: [UInt8]
  package var move: ParticipantMove

  package init(transaction: TransactionID, event: [UInt8], move: ParticipantMove) {
    self.transaction = transaction
    self.event = event
    self.move = move
  }
}
