/// What a record is made of: a statement with its values. Its number is part of the form in which records
/// wait in a ``RecordLog``, and is never given to another one.
enum JournalOperation: UInt8, CaseIterable {
  case moved = 1
  case forgetRecords
  case giveBackPages
  case consumed
  case queued
  case sent
  case trim
  case effectStarted
  case effectEnded
  case postponed
  case unpostponed
  case letter
  case unletter
  case meta
  case unmeta
  case answered
  case answerForgotten
  case prepared
  case aborted
  case applied
  case coordinatorStarted
  case committed
  case acknowledged
  case forgotten
  case forgottenThrough
  case requestsAcknowledged
  case clientForgotten

  var statement: String {
    switch self {
    case .moved: "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)"
    case .forgetRecords: "DELETE FROM record WHERE id < ?"
    case .giveBackPages: "PRAGMA incremental_vacuum(1024)"
    case .consumed: "REPLACE INTO consumed VALUES (?, ?, ?, ?)"
    case .queued: "INSERT INTO outbox VALUES (?, ?, ?, ?)"
    case .sent: "REPLACE INTO sent VALUES (?, ?, ?)"
    case .trim: "DELETE FROM outbox WHERE pipe = ? AND last <= ?"
    case .effectStarted: "REPLACE INTO effect VALUES (?, ?, ?, ?, ?, ?)"
    case .effectEnded: "DELETE FROM effect WHERE version = ? AND feedback = ?"
    case .postponed: "REPLACE INTO postponed VALUES (?, ?, ?, ?)"
    case .unpostponed: "DELETE FROM postponed WHERE id = ?"
    case .letter: "REPLACE INTO letter VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    case .unletter: "DELETE FROM letter WHERE id = ?"
    case .meta: "REPLACE INTO meta VALUES (?, ?)"
    case .unmeta: "DELETE FROM meta WHERE key = ?"
    case .answered: "REPLACE INTO request VALUES (?, ?, ?, ?)"
    case .answerForgotten: "DELETE FROM request WHERE client = ? AND id = ?"
    case .requestsAcknowledged: "DELETE FROM request WHERE client = ? AND id < ?"
    case .clientForgotten: "DELETE FROM request WHERE client = ?"
    case .prepared: "REPLACE INTO prepared VALUES (1, ?, ?, ?, ?, ?)"
    case .aborted: "DELETE FROM prepared WHERE epoch = ? AND sequence = ?"
    case .applied: "REPLACE INTO applied VALUES (1, ?, ?)"
    case .coordinatorStarted:
      "INSERT INTO coordinator VALUES (1, ?1, 0, 0) ON CONFLICT (id) DO UPDATE SET epoch = ?1"
    case .committed: "REPLACE INTO committed VALUES (?, ?, ?, ?, ?, 0)"
    case .acknowledged: "UPDATE committed SET acknowledged = 1 WHERE epoch = ? AND sequence = ?"
    case .forgotten: "DELETE FROM committed WHERE epoch = ? AND sequence = ?"
    case .forgottenThrough:
      "UPDATE coordinator SET forgotten_epoch = ?1, forgotten_sequence = ?2 "
        + "WHERE (forgotten_epoch, forgotten_sequence) < (?1, ?2)"
    }
  }
}
