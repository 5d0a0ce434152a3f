import PipeMachines

/// What a caller's request is told by; the caller never uses a number twice.
package struct RequestID: Hashable, Codable, Sendable {
  /// Who asks: unique among all callers, also among those that are gone.
  package var caller: String
  package var number: UInt64

  package init(caller: String, number: UInt64) {
    self.caller = caller
    self.number = number
  }
}

/// How the participants are to take an event.
package enum TransactionMode: Hashable, Sendable {
  /// All or none, tried once.
  case `try`
  /// All or none, tried again whenever it may be enabled, for so long; `nil` is for ever.
  case await(Duration?)
  /// Each for itself.
  case broadcast
}

/// A caller's request, with the participants that its composite's sync vector names.
package struct TransactionRequest: Hashable, Sendable {
  package var composite: String
  /// The name of the event's case.
  package var event: String
  /// The machines of the sync vector.
  package var participants: [String]
  /// The event as it travels.
  package var body: [UInt8]
  /// What the participants' answers depend on, beside their states.
  package var question: [UInt8]
  package var mode: TransactionMode

  /// - Parameter question: The event alone; `nil` for the whole body.
  package init(
    composite: String, event: String, participants: [String], body: [UInt8],
    question: [UInt8]? = nil, mode: TransactionMode
  ) {
    self.question = question ?? body
    self.composite = composite
    self.event = event
    self.participants = participants
    self.body = body
    self.mode = mode
  }
}

/// What a coordinator says to a participant.
package enum CoordinatorMessage: Hashable, Sendable {
  /// Asks whether the participant takes the event, and to be prepared if so.
  ///
  /// A participant that does not take it says ``ParticipantMessage/changed`` at its next step, if
  /// `wantsChange`.
  case prepare(TransactionID, event: [UInt8], wantsChange: Bool)
  case commit(TransactionID)
  case abort(TransactionID)
  /// Asks the participant to take the event for itself.
  case deliver(TransactionID, event: [UInt8])
}

/// What a participant says first on each connection: that it takes part.
package struct ParticipantJoin: Hashable, Sendable {
  /// The highest transaction that it has heard of.
  package var watermark: TransactionID
  /// The one that it is prepared for, and of which it is not told the end.
  package var prepared: TransactionID?

  package init(watermark: TransactionID, prepared: TransactionID? = nil) {
    self.watermark = watermark
    self.prepared = prepared
  }
}

/// What a participant says to its coordinator.
package enum ParticipantMessage: Hashable, Sendable {
  /// It is prepared for this move, whatever happens.
  case yes(TransactionID, ParticipantMove)
  case no(TransactionID, ParticipantRefusal)
  /// It has moved, and will not ask again.
  case ack(TransactionID)
  /// Asks how the transaction has ended.
  case query(TransactionID)
  /// How it took an event for itself.
  case delivered(TransactionID, Result)
  /// It has moved since it last said no.
  case changed

  /// What became of an event that the participant took for itself.
  package enum Result: Hashable, Sendable {
    case moved(version: UInt64)
    case refused(ParticipantRefusal)
  }
}

/// A step of a participant: the count of its steps and its state after it.
package struct ParticipantMove: Hashable, Sendable {
  package var version: UInt64
  package var state: [UInt8]

  package init(version: UInt64, state: [UInt8]) {
    self.version = version
    self.state = state
  }
}

/// Why a participant does not take an event.
package enum ParticipantRefusal: Hashable, Sendable {
  /// Its state does not allow it.
  case refused(Refusal, version: UInt64, state: [UInt8])
  /// It takes no event now: it is prepared for another, or a transition or a pipe keeps it.
  case busy
}

/// The answer to a caller.
package enum TransactionReply: Hashable, Sendable {
  /// All or none have moved.
  case atomic(SynchronizedReply)
  /// Each has answered for itself.
  case broadcast([String: BroadcastResult])
}
