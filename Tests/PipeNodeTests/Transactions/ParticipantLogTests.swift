import PipeMachines
import PipeNode
import Testing

@Suite("The log of a participant in synchronized events")
struct ParticipantLogTests {
  private static let event = TransactionID(epoch: 3, sequence: 1)

  @Test(
    "An event in doubt is logged with the reason, and later with its outcome",
    arguments: [
      (
        .inDoubt(event, after: .restart, coordinator: "pair"),
        "synchronized event 3.1 is in doubt after a restart: the node has promised to take the event, and asks "
          + "'pair' for the outcome"
      ),
      (
        .inDoubt(event, after: .silence, coordinator: "pair"),
        "synchronized event 3.1 is in doubt after 200 ms without a message: the node has promised to take the "
          + "event, and asks 'pair' for the outcome"
      ),
      (
        .inDoubt(event, after: .lostConnection, coordinator: "pair"),
        "synchronized event 3.1 is in doubt after a lost connection: the node has promised to take the event, "
          + "and asks 'pair' for the outcome"
      ),
      (
        .resolved(event, .committed),
        "synchronized event 3.1 is no longer in doubt: the event was committed"
      ),
      (
        .resolved(event, .aborted),
        "synchronized event 3.1 is no longer in doubt: the event was aborted"
      ),
    ] as [(InDoubtReport, String)])
  func doubts(report: InDoubtReport, text: String) {
    #expect(report.description == text)
  }

  @Test(
    "If a message contradicts the participant's journal, the log says which journal is wrong",
    arguments: [
      (
        .commitOfUnknown(event),
        "synchronized event 3.1 was committed, but is unknown to this node: the process that had agreed to the "
          + "event kept no journal, or its journal was removed; the step is lost"
      ),
      (
        .abortOfCommitted(event),
        "synchronized event 3.1 was committed at this node, but the coordinator reports an abort: the journal of "
          + "the coordinator was replaced"
      ),
    ] as [(ParticipantConflict, String)])
  func conflicts(conflict: ParticipantConflict, text: String) {
    #expect(conflict.warning == text)
  }
}
