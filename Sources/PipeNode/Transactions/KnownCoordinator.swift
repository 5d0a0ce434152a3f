import PipeMachines
import PipeWire

/// A participant's knowledge about its coordinator: the coordinator's journal, according to the
/// last request.
struct KnownCoordinator {
  private let name: String
  /// The coordinator and its journal; `nil` if the coordinator has no journal.
  private(set) var recorded: RecordedCoordinator?

  /// - Parameter recorded: The coordinator according to the participant's journal.
  init(_ name: String, recorded: RecordedCoordinator?) {
    self.name = name
    self.recorded = recorded
  }

  /// Returns the coordinator's journal, and the last commit under this journal whose step is
  /// applied; `nil` if the coordinator has no journal.
  func history(lastCommitted: TransactionID) -> ParticipantJoin.History? {
    guard let recorded, recorded.name == name else { return nil }
    let isOlder = lastCommitted <= recorded.lastTransaction
    return .init(journal: recorded.journal, committed: isOlder ? .zero : lastCommitted)
  }

  /// Notes the id of the coordinator's journal according to a request; `nil` if the coordinator has
  /// no journal.
  /// - Returns: Whether the participant must record the change.
  mutating func note(_ journal: UInt64?, lastApplied: TransactionID) -> Bool {
    guard recorded?.journal != journal || recorded?.name != name, recorded != nil || journal != nil
    else { return false }
    recorded = journal.map {
      RecordedCoordinator(name: name, journal: $0, lastTransaction: lastApplied)
    }
    return true
  }
}
