import PipeMachines
import PipeWire

/// What a journal held when its node was started again.
struct JournalContents {
  /// The last record.
  struct Record {
    var id: Int64
    var version: UInt64
    var time: Int64
    var cause: String
    /// The state as JSON.
    var state: [UInt8]
  }

  /// The receiving end of a pipe.
  struct Consumed {
    /// The numbering that `applied` counts in; see ``Journal/stream``.
    var stream: UInt64
    var applied: UInt64
    /// Whether the sender had said goodbye.
    var closed: Bool
    /// Consumed, and kept until the state changes; in order.
    var postponed: [(id: Int64, sequence: UInt64, event: [UInt8])] = []
  }

  /// The sending end of a pipe.
  struct Sent {
    var queued: UInt64
    var acknowledged: UInt64
    /// The events after `acknowledged`, in order, as JSON.
    var events: [[UInt8]] = []
  }

  /// An effect that had not ended.
  struct Effect {
    var origin: EffectOrigin
    /// The state that it belongs to, as JSON.
    var state: [UInt8]
    /// How long ago it started, or last gave an event.
    var elapsed: Duration
  }

  /// A request that was applied.
  struct Request {
    var key: RequestKey
    var version: UInt64
    var state: [UInt8]
  }

  /// A part in synchronized events.
  struct Participation {
    /// The transaction of the last step that was taken together with others.
    var applied = TransactionID.zero
    /// The step that was last promised, which may have been taken or given up since.
    var prepared: PreparedStep?

    /// A step was promised without a record of its own.
    /// - Parameter version: That of the last record.
    mutating func add(_ promise: PromiseMark.Contents, at version: UInt64) {
      let step = promise.step
      guard step.transaction > prepared?.transaction ?? .zero else { return }
      applied = max(applied, promise.applied)
      switch promise.end {
      case .unknown: prepared = step
      case .taken:
        prepared = step
        if version >= step.move.version { applied = max(applied, step.transaction) }
      case .givenUp: prepared = nil
      }
    }
  }

  var record: Record
  var participation = Participation()
  var consumed: [String: Consumed] = [:]
  var sent: [String: Sent] = [:]
  var effects: [Effect] = []
  /// The most recent dead letters, and how many there are.
  var letters: [DeadLetter] = []
  var letterCount = 0
  /// The number of the last letter there was; it is not given to another one.
  var lastLetter: UInt64 = 0
  var requests: [Request] = []
}
