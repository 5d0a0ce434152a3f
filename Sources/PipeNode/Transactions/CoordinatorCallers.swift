import PipeMachines
import PipeWire

/// Those who wait for an answer of a coordinator, by their requests.
struct CoordinatorCallers {
  private var replies: [RequestID: Reply] = [:]
  private var lastUnnamed: UInt64 = 0
  /// How many were answered, and how many of these that nobody has moved.
  private(set) var answered: UInt64 = 0
  private(set) var refused: UInt64 = 0

  /// Keeps what answers a caller, in place of what did when it last asked.
  mutating func keep(_ id: RequestID, _ reply: @escaping Reply) {
    replies[id] = reply
  }

  /// Takes out what answers a caller, and counts the answer.
  mutating func take(_ id: RequestID, for reply: TransactionReply) -> Reply? {
    answered += 1
    switch reply {
    case .atomic(let reply) where !reply.isCommitted: refused += 1
    case .atomic, .broadcast: break
    }
    return replies.removeValue(forKey: id)
  }

  /// A number for a caller that gives none.
  mutating func unnamed(in epoch: UInt64) -> RequestID {
    lastUnnamed += 1
    return RequestID(caller: "unnamed.\(epoch)", number: lastUnnamed)
  }
}
