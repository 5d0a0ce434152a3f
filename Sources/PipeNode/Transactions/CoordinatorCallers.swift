import PipeMachines
import PipeSupport
import PipeWire

/// Those who wait for an answer of a coordinator, by their requests.
struct CoordinatorCallers {
  private struct Caller {
    var reply: Reply
    /// The composite whose event it asks for; `nil` where it asks for no event.
    var composite: String?
    /// When it first asked, by the steady clock. Unit: nanoseconds.
    var since: Int64
  }

  private var callers: [RequestID: Caller] = [:]
  private var lastUnnamed: UInt64 = 0
  /// How many were answered, and how many of these that nobody has moved.
  private(set) var answered: UInt64 = 0
  private(set) var refused: UInt64 = 0
  /// What was answered to those who asked for a composite's events, by the composite.
  private(set) var requests: [String: NodeStatus.Requests] = [:]

  /// Keeps what answers a caller, in place of what did when it last asked.
  mutating func keep(_ id: RequestID, of composite: String? = nil, _ reply: @escaping Reply) {
    let since = callers[id]?.since ?? BootClock.nanoseconds
    callers[id] = Caller(reply: reply, composite: composite, since: since)
  }

  /// Takes out what answers a caller, and counts the answer.
  mutating func take(_ id: RequestID, for reply: TransactionReply) -> Reply? {
    answered += 1
    switch reply {
    case .atomic(let reply) where !reply.isCommitted: refused += 1
    case .atomic, .broadcast: break
    }
    guard let caller = callers.removeValue(forKey: id) else { return nil }
    if let composite = caller.composite {
      let time = BootClock.nanoseconds - caller.since
      requests[composite, default: .init()].count(reply.outcome, nanoseconds: time)
    }
    return caller.reply
  }

  /// Takes out what answers a caller that is not told what became of its request.
  mutating func take(_ id: RequestID) -> Reply? { callers.removeValue(forKey: id)?.reply }

  /// A number for a caller that gives none.
  mutating func unnamed(in epoch: UInt64) -> RequestID {
    lastUnnamed += 1
    return RequestID(caller: "\(RequestID.unnamedPrefix)\(epoch)", number: lastUnnamed)
  }
}

extension NodeStatus.Requests {
  fileprivate mutating func count(_ outcome: TransactionReply.Outcome, nanoseconds: Int64) {
    outcomes[outcome.rawValue, default: 0] += 1
    durations.add(nanoseconds: nanoseconds)
  }
}
