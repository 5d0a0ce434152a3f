import PipeMachines
import PipeWire

/// What a journal held when its node was started again.
package struct JournalContents {
  /// The last record.
  package struct Record {
    var id: Int64
    package var version: UInt64
    package var time: Int64
    package var cause: String
    /// The state as JSON.
    package var state: [UInt8]
  }

  /// The receiving end of a pipe.
  package struct Consumed {
    /// The numbering that `applied` counts in; see ``Journal/stream``.
    package var stream: UInt64
    package var applied: UInt64
    /// Whether the sender had said goodbye.
    package var closed: Bool
    /// Consumed, and kept until the state changes; in order.
    package var postponed: [(id: Int64, sequence: UInt64, event: [UInt8])] = []
  }

  /// The sending end of a pipe.
  package struct Sent {
    package var queued: UInt64
    package var acknowledged: UInt64
    /// The events after `acknowledged`.
    package var events = RecordedEvents()
  }

  /// Where a pipe leads.
  package struct Receiver: Hashable {
    /// The node.
    package var name: String
    /// The last event that went to another one, to which the pipe led before.
    package var turnedAfter: UInt64

    package init(_ name: String, turnedAfter: UInt64 = 0) {
      self.name = name
      self.turnedAfter = turnedAfter
    }
  }

  /// An effect that had not ended.
  package struct Effect {
    package var origin: EffectOrigin
    /// The state that it belongs to, as JSON.
    package var state: [UInt8]
    /// How long ago it started, or last gave an event.
    package var elapsed: Duration
  }

  /// A request that was applied.
  package struct Request {
    package var key: RequestKey
    package var version: UInt64
    /// As JSON; empty where it was dropped.
    package var state: [UInt8]

    package init(key: RequestKey, version: UInt64, state: [UInt8]) {
      self.key = key
      self.version = version
      self.state = state
    }
  }

  /// A part in synchronized events.
  package struct Participant {
    /// The transaction of the last step that was taken together with others.
    package var applied = TransactionID.zero
    /// The step that was last prepared, which may have been taken or aborted since.
    package var prepared: PreparedStep?
    /// The journal of its coordinator under which the node was last prepared.
    package var coordinator: KnownCoordinator?

    /// A step was prepared without a record of its own.
    /// - Parameter version: That of the last record.
    mutating func add(_ mark: PreparedMark.Contents, at version: UInt64) {
      let step = mark.step
      // Of one that the database has as well, the mark tells the end.
      guard step.transaction >= prepared?.transaction ?? .zero else { return }
      applied = max(applied, mark.applied)
      switch mark.end {
      case .unknown: prepared = step
      case .taken:
        prepared = step
        if version >= step.move.version { applied = max(applied, step.transaction) }
      case .aborted: prepared = nil
      }
    }
  }

  package var record: Record
  package var participant = Participant()
  package var consumed: [String: Consumed] = [:]
  package var sent: [String: Sent] = [:]
  package var effects: [Effect] = []
  /// The most recent dead letters, and how many there are.
  package var deadLetters: [DeadLetter] = []
  package var deadLetterCount = 0
  /// What they take, about. Unit: bytes.
  package var deadLetterBytes = 0
  /// Refused events that became none, since there were too many.
  package var lostDeadLetters: UInt64 = 0
  /// The number of the last dead letter there was; it is not given to another one.
  package var lastDeadLetter: UInt64 = 0
  package var requests: [Request] = []
  /// No request up to this number is new, of a client that is not among `requests`.
  package var forgottenRequests: UInt64 = 0
}
