import PipeRuntime

/// A synchronized event that a caller requested, with the outcome that the caller received.
package struct Attempt: Equatable, Sendable {
  package enum Outcome: Equatable, Sendable {
    case committed(TransactionID, versions: [String: UInt64])
    case refused, busy, unavailable
    /// No answer arrived in time, or the answer said that the outcome is unknown.
    case unknown
  }

  package var composite: String
  /// The text that each participant stores when it takes the event.
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

/// The answers of coordinators about their transactions. A coordinator must never change its
/// answer.
package struct CoordinatorAnswers: Sendable {
  package enum Decision: Equatable, Sendable {
    case committed([String: UInt64])
    case aborted
  }

  private var decisions: [String: [TransactionID: Decision]] = [:]
  /// A description of each answer that contradicts an earlier answer.
  package private(set) var contradictions: [String] = []
  /// The number of queries that were answered, including answers with `unknown`.
  package private(set) var answered = 0

  package init() {}

  /// Adds an answer of a coordinator about a transaction.
  package mutating func record(
    _ transaction: TransactionID, of coordinator: String, _ reply: SynchronizedReply
  ) {
    let decision: Decision
    switch reply {
    case .committed(let number, let versions):
      if number != transaction {
        contradictions.append("\(coordinator): asked for \(transaction), received \(number)")
      }
      decision = .committed(versions)
    case .refused, .busy, .unavailable: decision = .aborted
    case .unknown: return
    }
    if let before = decisions[coordinator]?[transaction], before != decision {
      contradictions.append(
        "\(coordinator): transaction \(transaction) was \(before), and then \(decision)")
    }
    decisions[coordinator, default: [:]][transaction] = decision
  }

  mutating func count() { answered += 1 }

  /// Returns the transactions that the coordinator has reported as committed or aborted.
  func decidedTransactions(of coordinator: String) -> [TransactionID] {
    decisions[coordinator]?.keys.sorted() ?? []
  }

  /// Returns the newest transaction that the coordinator has reported as committed or aborted.
  func newest(of coordinator: String) -> TransactionID? { decisions[coordinator]?.keys.max() }
}
