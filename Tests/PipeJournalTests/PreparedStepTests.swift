import PipeJournal
import PipeMachines
import PipeWire
import TestSupport
import Testing

@Suite("The record of a prepared step")
struct PreparedStepTests {
  @Test(
    "The record of a prepared step says whether the step enters a state, in log and database",
    arguments: [Durability.process, .power], [true, false])
  func kind(durability: Durability, isInternal: Bool) throws {
    let directory = try TemporaryDirectory()
    let identity = Journal.Identity(topology: "t", node: "door", machine: "m")
    let path = directory.path + "/door.sqlite"
    let move = ParticipantMove(version: 2, state: Array("2".utf8), isInternal: isInternal)
    let step = PreparedStep(
      transaction: TransactionID(epoch: 4, sequence: 2), event: Array("pair\n\"meet\"".utf8),
      move: move)
    do {
      let journal = try Journal(path, identity: identity, durability: durability)
      try journal.record {
        try journal.recordState(
          to: Array("1".utf8), version: 1, steps: 1, cause: "in", time: 1, incarnation: 1)
      }
      let isMarked = journal.markPrepared(step)
      #expect(isMarked == (durability == .process))
      if !isMarked { try journal.record { try journal.recordPrepared(step) } }
      try journal.writePendingRecords()
    }
    let next = try Journal(path, identity: identity, durability: durability)
    #expect(next.contents?.participant.preparedStep == step)
    let prepared = try JournalReader(path, node: "door").snapshot(limit: 1).prepared
    #expect(prepared?.transaction == step.transaction)
  }
}
