import PipeMachines
import PipeWire

/// One transaction at its coordinator, from the grant of its locks until all participants know its
/// outcome.
///
/// The coordinator's table of docs/PROTOCOL.md: a pure value that answers each input with a decision.
/// A transaction without a value is idle or forgotten; see ``CoordinatorStateMachine``.
package struct TransactionStateMachine: Sendable {
  package let id: TransactionID
  /// The participants of the transaction.
  package let participants: [String]
  package private(set) var phase: Phase

  package enum Phase: Hashable, Sendable {
    /// All participants were asked, and these have voted yes.
    case collecting([String: ParticipantMove])
    /// All participants have voted yes; the record of the commit is not durable yet.
    case recording([String: ParticipantMove])
    /// Committed; these participants have not acknowledged it.
    case committing(Set<String>)
    /// A broadcast, with the results of these participants.
    case delivering([String: BroadcastResult])
  }

  package enum Input: Hashable, Sendable {
    case yes(String, ParticipantMove)
    case no(String, ParticipantRefusal)
    case ack(String)
    case query(String)
    case delivered(String, Result<UInt64, ParticipantRefusal>)
    /// The record of the commit is durable.
    case recorded
    /// Not all participants have answered in time.
    case votesOverdue
    /// Not all participants have acknowledged in time.
    case resendDue
    case connected(String)
    case disconnected(String)
  }

  package enum Decision: Hashable, Sendable {
    case nothing
    /// Makes the commit durable: the commit point.
    case recordCommit([String: ParticipantMove])
    /// The commit is durable: answers the caller, sends COMMIT to all participants, releases the
    /// locks.
    case commit
    /// Sends COMMIT again.
    case resend([String])
    /// Sends ABORT to these participants, answers the caller, releases the locks.
    case abort(SynchronizedReply, [String])
    /// All participants have acknowledged.
    case finish
    /// Answers the caller of a broadcast, releases the locks.
    case answer([String: BroadcastResult])
  }

  private init(id: TransactionID, participants: [String], phase: Phase) {
    self.id = id
    self.participants = participants
    self.phase = phase
  }

  /// Creates a transaction whose participants are asked now.
  package static func atomic(_ id: TransactionID, _ participants: [String]) -> Self {
    Self(id: id, participants: participants, phase: .collecting([:]))
  }

  /// Creates a transaction that was committed before the coordinator started.
  package static func recovered(_ id: TransactionID, _ participants: [String]) -> Self {
    Self(id: id, participants: participants, phase: .committing(Set(participants)))
  }

  /// Creates a broadcast: each participant is asked to take the event for itself. Those in
  /// `unavailable` are not asked.
  package static func broadcast(
    _ id: TransactionID, _ participants: [String], unavailable: [String]
  ) -> Self {
    let known = unavailable.map { ($0, BroadcastResult.unavailable) }
    return Self(
      id: id, participants: participants,
      phase: .delivering(Dictionary(uniqueKeysWithValues: known)))
  }
}

extension TransactionStateMachine {
  package mutating func take(_ input: Input) -> Decision {
    switch phase {
    case .collecting(let votes): collecting(votes, input)
    case .recording: recording(input)
    case .committing(let unacknowledged): committing(unacknowledged, input)
    case .delivering(let results): delivering(results, input)
    }
  }

  private mutating func collecting(
    _ votes: [String: ParticipantMove], _ input: Input
  ) -> Decision {
    switch input {
    case .yes(let participant, let move):
      guard participants.contains(participant) else { return .nothing }
      var votes = votes
      votes[participant] = move
      guard votes.count == participants.count else {
        phase = .collecting(votes)
        return .nothing
      }
      phase = .recording(votes)
      return .recordCommit(votes)
    case .no(let participant, let refusal):
      guard participants.contains(participant) else { return .nothing }
      let blockingParticipant = refusal.blockingParticipant(by: participant)
      // The participant that has refused has nothing to undo.
      return .abort(
        blockingParticipant.map { .refused([$0]) } ?? .busy([participant]),
        participants.filter { $0 != participant })
    case .votesOverdue:
      let missing = participants.first { votes[$0] == nil } ?? participants[0]
      return .abort(.unavailable(missing), participants)
    case .disconnected(let participant):
      guard participants.contains(participant) else { return .nothing }
      return .abort(.unavailable(participant), participants)
    // Undecided: the decision, when it is made, answers the query.
    case .query, .connected: return .nothing
    // No such message was requested.
    case .ack, .delivered, .recorded, .resendDue: return .nothing
    }
  }

  private mutating func recording(_ input: Input) -> Decision {
    switch input {
    case .recorded:
      phase = .committing(Set(participants))
      return .commit
    // All participants are prepared, so nothing can stop the commit. The commit itself answers
    // queries.
    case .yes, .no, .query, .votesOverdue, .connected, .disconnected: return .nothing
    case .ack, .delivered, .resendDue: return .nothing
    }
  }

  private mutating func committing(_ unacknowledged: Set<String>, _ input: Input) -> Decision {
    switch input {
    case .ack(let participant):
      let remaining = unacknowledged.subtracting([participant])
      phase = .committing(remaining)
      return remaining.isEmpty ? .finish : .nothing
    case .yes(let participant, _), .query(let participant):
      // The participant is prepared, so it has not received the commit, whatever it acknowledges
      // later.
      return participants.contains(participant) ? .resend([participant]) : .nothing
    case .connected(let participant):
      return unacknowledged.contains(participant) ? .resend([participant]) : .nothing
    case .resendDue: return .resend(unacknowledged.sorted())
    case .no, .delivered, .recorded, .votesOverdue, .disconnected: return .nothing
    }
  }

  private mutating func delivering(
    _ results: [String: BroadcastResult], _ input: Input
  ) -> Decision {
    switch input {
    case .delivered(let participant, .success(let version)):
      return add(.accepted(version: version), of: participant, to: results)
    case .delivered(let participant, .failure(let refusal)):
      let blockingParticipant = refusal.blockingParticipant(by: participant)
      return add(blockingParticipant.map { .refused($0) } ?? .busy, of: participant, to: results)
    case .disconnected(let participant):
      return add(.unknown, of: participant, to: results)
    case .votesOverdue:
      let missing = participants.filter { results[$0] == nil }.map { ($0, BroadcastResult.unknown) }
      return .answer(results.merging(missing) { known, _ in known })
    case .yes, .no, .ack, .query, .recorded, .resendDue, .connected: return .nothing
    }
  }

  private mutating func add(
    _ result: BroadcastResult, of participant: String, to results: [String: BroadcastResult]
  ) -> Decision {
    guard participants.contains(participant), results[participant] == nil else { return .nothing }
    var results = results
    results[participant] = result
    phase = .delivering(results)
    return results.count == participants.count ? .answer(results) : .nothing
  }
}

extension ParticipantRefusal {
  /// Returns the participant's refusal, with its state and reason; `nil` if it is busy.
  func blockingParticipant(by participant: String) -> BlockingParticipant? {
    guard case .refused(let reason, let version, let state) = self else { return nil }
    return BlockingParticipant(
      participant: participant, state: JSONValue(shown: state), version: version, reason: reason)
  }
}
