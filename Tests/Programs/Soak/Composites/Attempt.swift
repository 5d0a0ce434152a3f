import PipeRuntime

/// One synchronized event that somebody has asked for, and what he was told.
package struct Attempt: Equatable, Sendable {
  package enum Outcome: Equatable, Sendable {
    case committed(TransactionID, versions: [String: UInt64])
    case refused, busy, unavailable
    /// Nobody answered in time, or nobody knew.
    case unknown
  }

  package var composite: String
  /// What each participant remembers of it, if it has taken it.
  package var meeting: String
  package var outcome: Outcome

  package init(_ composite: String, _ meeting: String, _ outcome: Outcome) {
    self.composite = composite
    self.meeting = meeting
    self.outcome = outcome
  }
}

extension Attempt.Outcome {
  init(_ reply: SynchronizedReply) {
    self =
      switch reply {
      case .committed(let transaction, let versions): .committed(transaction, versions: versions)
      case .refused: .refused
      case .busy: .busy
      case .unavailable: .unavailable
      case .unknown: .unknown
      }
  }
}

/// What coordinators have said of transactions when they were asked: it must never change.
package struct Endings: Sendable {
  package enum Ending: Equatable, Sendable {
    case committed([String: UInt64])
    case aborted
  }

  private var known: [String: [TransactionID: Ending]] = [:]
  /// In words, one for each answer that differs from an earlier one.
  package private(set) var contradictions: [String] = []
  /// Questions that were answered, with `unknown` or for good.
  package private(set) var answered = 0

  package init() {}

  /// Takes an answer in.
  package mutating func tell(
    _ transaction: TransactionID, of coordinator: String, _ reply: SynchronizedReply
  ) {
    let ending: Ending
    switch reply {
    case .committed(let number, let versions):
      if number != transaction {
        contradictions.append("\(coordinator): asked for \(transaction), was told of \(number)")
      }
      ending = .committed(versions)
    case .refused, .busy, .unavailable: ending = .aborted
    case .unknown: return
    }
    if let before = known[coordinator]?[transaction], before != ending {
      contradictions.append(
        "\(coordinator): transaction \(transaction) was \(before), and then \(ending)")
    }
    known[coordinator, default: [:]][transaction] = ending
  }

  mutating func count() { answered += 1 }

  /// The transactions that are settled.
  func settled(of coordinator: String) -> [TransactionID] {
    known[coordinator]?.keys.sorted() ?? []
  }

  /// The newest transaction that anything is known of.
  func newest(of coordinator: String) -> TransactionID? { known[coordinator]?.keys.max() }
}
