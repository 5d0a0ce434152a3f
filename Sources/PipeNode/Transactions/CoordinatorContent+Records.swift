import PipeJournal
import PipeSupport
import PipeWire

// What the coordinator makes durable.
extension CoordinatorContent {
  var hasUnrecorded: Bool { !records.isEmpty || letters.hasUnrecorded }

  var hasLeftover: Bool { !acknowledged.isEmpty || !forgotten.isEmpty }

  func record(into journal: Journal) throws {
    for record in records {
      switch record {
      case .start(let epoch):
        try journal.coordinatorStarted(epoch: epoch)
        // A record like a machine's, by which the next start tells whether the journal is whole.
        try journal.moved(
          to: Array("null".utf8), version: epoch, steps: 1, cause: "start",
          time: WallClock.nanoseconds, incarnation: services?.incarnation ?? 0)
      case .commit(let commit):
        reach(.commitBefore)
        try journal.committed(commit)
      }
    }
    try letters.record(into: journal)
    for transaction in acknowledged { try journal.acknowledged(transaction) }
    for transaction in forgotten { try journal.forgotten(transaction) }
  }

  func becameRecorded() {
    let done = records
    records = []
    letters.recorded()
    if !done.isEmpty || journal == nil {
      acknowledged = []
      forgotten = []
    }
    for record in done {
      if case .commit(let commit) = record {
        reach(.commitRecorded)
        committing = coordinator.event(of: commit.request)
      }
      perform(coordinator.recorded(record))
      committing = nil
    }
  }
}
