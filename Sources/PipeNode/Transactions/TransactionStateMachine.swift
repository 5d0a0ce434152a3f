import PipeMachines
import PipeWire

/// A transaction of a coordinator, from the locking of its participants until all participants know
/// its outcome.
///
/// This is a pure state machine that responds to each input with a decision. It implements the
/// coordinator's table in docs/PROTOCOL.md. Transactions that have not begun or are forgotten have
/// no value of this type; see ``CoordinatorStateMachine``.
package struct TransactionStateMachine: Sendable {
  package let id: TransactionID
  /// The participants of the transaction. Each is a node, or an instance of a keyed node.
  package let participants: [String]
  package private(set) var phase: Phase

  package enum Phase: Hashable, Sendable {
    /// The coordinator has asked all participants. The dictionary contains the participants that
    /// have voted yes.
    case collecting([String: ParticipantMove])
    /// All participants have voted yes; the record of the commit is not durable yet.
    case recording([String: ParticipantMove])
    /// The transaction is committed, but these participants have not acknowledged the commit.
    case committing(Set<String>)
    /// A broadcast, with the results of the participants that have answered.
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
    /// The participants have had time to answer.
    case votesOverdue
    /// The participants have had time to acknowledge the commit.
    case resendDue
    case connected(String)
    case disconnected(String)
  }

  package enum Decision: Hashable, Sendable {
    case nothing
    /// Make the commit durable. The transaction is committed when this record is durable.
    case recordCommit([String: ParticipantMove])
    /// The commit is durable. Answer the caller, send COMMIT to all participants, and release the
    /// locks.
    case commit
    /// Send COMMIT to these participants again.
    case resend([String])
    /// Send ABORT to these participants, answer the caller, and release the locks.
    case abort(SynchronizedReply, [String])
    /// All participants have acknowledged the commit, so the transaction has ended.
    case finish
    /// Answer the caller of a broadcast, and release the locks.
    case answer([String: BroadcastResult])
  }

  /// Returns the participant that is `node` or an instance of `node`; `nil` if there is none.
  func participant(of node: String) -> String? {
    participants.first { $0 == node || InstanceName.node(of: $0) == node }
  }

  /// Returns whether the outcome depends on an answer that has not arrived yet: the answer of a node,
  /// or of an instance of the node.
  func awaitsAnswer(of node: String) -> Bool {
    let answered: Set<String>
    switch phase {
    case .collecting(let votes): answered = Set(votes.keys)
    case .delivering(let results): answered = Set(results.keys)
    case .recording, .committing: return false
    }
    return participants.contains {
      InstanceName.node(of: $0) == node && !answered.contains($0)
    }
  }

  private init(id: TransactionID, participants: [String], phase: Phase) {
    self.id = id
    self.participants = participants
    self.phase = phase
  }

  /// Creates a transaction whose participants the coordinator is about to ask.
  package static func atomic(_ id: TransactionID, _ participants: [String]) -> Self {
    Self(id: id, participants: participants, phase: .collecting([:]))
  }

  /// Creates a transaction that an earlier process of the coordinator has committed.
  package static func recovered(_ id: TransactionID, _ participants: [String]) -> Self {
    Self(id: id, participants: participants, phase: .committing(Set(participants)))
  }

  /// Creates a broadcast. Each participant accepts or refuses the event independently of the
  /// others. The participants in `unavailable` are not asked.
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
    case .collecting(let votes): handleWhileCollecting(votes, input)
    case .recording: handleWhileRecording(input)
    case .committing(let unacknowledged): handleWhileCommitting(unacknowledged, input)
    case .delivering(let results): handleWhileDelivering(results, input)
    }
  }

  private mutating func handleWhileCollecting(
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
      // The participant that has refused has nothing to roll back, so it receives no ABORT.
      return .abort(
        blockingParticipant.map { .refused([$0]) } ?? .busy([participant]),
        participants.filter { $0 != participant })
    case .votesOverdue:
      let missing = participants.first { votes[$0] == nil } ?? participants[0]
      return .abort(.unavailable(missing), participants)
    case .disconnected(let participant):
      guard participants.contains(participant) else { return .nothing }
      return .abort(.unavailable(participant), participants)
    // The transaction is undecided. The decision will answer the query.
    case .query, .connected: return .nothing
    // In this phase, the coordinator expects no such message.
    case .ack, .delivered, .recorded, .resendDue: return .nothing
    }
  }

  private mutating func handleWhileRecording(_ input: Input) -> Decision {
    switch input {
    case .recorded:
      phase = .committing(Set(participants))
      return .commit
    // All participants are prepared, so nothing can stop the commit. The commit will answer
    // queries.
    case .yes, .no, .query, .votesOverdue, .connected, .disconnected: return .nothing
    case .ack, .delivered, .resendDue: return .nothing
    }
  }

  private mutating func handleWhileCommitting(
    _ unacknowledged: Set<String>, _ input: Input
  ) -> Decision {
    switch input {
    case .ack(let participant):
      let remaining = unacknowledged.subtracting([participant])
      phase = .committing(remaining)
      return remaining.isEmpty ? .finish : .nothing
    case .yes(let participant, _), .query(let participant):
      // A participant that votes again or sends a query is prepared, so it has not received the
      // commit.
      return participants.contains(participant) ? .resend([participant]) : .nothing
    case .connected(let participant):
      return unacknowledged.contains(participant) ? .resend([participant]) : .nothing
    case .resendDue: return .resend(unacknowledged.sorted())
    case .no, .delivered, .recorded, .votesOverdue, .disconnected: return .nothing
    }
  }

  private mutating func handleWhileDelivering(
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
  /// Returns the refusal with the name of the participant, its state and the reason. Returns `nil`
  /// if the participant was busy or the event was withdrawn.
  func blockingParticipant(by participant: String) -> BlockingParticipant? {
    guard case .refused(let reason, let version, let state) = self else { return nil }
    return BlockingParticipant(
      participant: participant, state: JSONValue(shown: state), version: version, reason: reason)
  }
}
