/// A participant that withholds an event, and why.
public struct Withholding: Hashable, Codable, Sendable {
  /// The name of the participant.
  public var participant: String
  /// The state it is in, as JSON.
  public var state: JSONValue
  /// The count of its steps; `nil` for a machine that does not run.
  public var version: UInt64?
  /// Why it does: its state has no transition for the event, say, or an error was thrown.
  public var reason: Refusal

  /// Makes one.
  public init(participant: String, state: JSONValue, version: UInt64?, reason: Refusal) {
    self.participant = participant
    self.state = state
    self.version = version
    self.reason = reason
  }
}

extension Withholding: CustomStringConvertible {
  /// A sentence that tells it.
  public var description: String {
    let why =
      switch reason {
      case .noTransition: "has no transition for it"
      case .guard: "has a guard that says no"
      case .thrown(let error): "has a function that threw '\(error)'"
      case .asynchronous: "has an asynchronous transition, and can promise nothing"
      case .overdue: "has an asynchronous transition that had not returned within its time limit"
      case .stateTooLarge: "has a transition to a state of more than 1 MiB as JSON"
      }
    return "'\(participant)' \(why) in state \(state.text)"
  }
}

/// What became of a synchronized event: the caller gets exactly one of these.
public enum SynchronizedReply: Hashable, Codable, Sendable {
  /// All participants have moved, each to this version.
  case committed(TransactionID, versions: [String: UInt64])
  /// None has moved: the state of these does not allow it.
  case refused([Withholding])
  /// None has moved: these take no event now.
  case busy([String])
  /// None has moved: this participant, or the composite itself, does not run.
  case unavailable(String)
  /// Not known yet; ask again by the number. Nothing is said of who has moved.
  case unknown(TransactionID)
}

extension SynchronizedReply {
  /// Whether all participants have moved.
  public var isCommitted: Bool {
    if case .committed = self { true } else { false }
  }
}

/// How a synchronized event is tried.
public enum SynchronizedMode: Hashable, Codable, Sendable {
  /// Once; where it is not enabled, it is refused.
  case `try`
  /// Until it is enabled, or until so long a time has passed; `nil` waits without limit.
  case await(Duration?)
}

/// What became of an event at one participant, where each takes it for itself.
public enum BroadcastResult: Hashable, Sendable {
  /// It has moved, to this version.
  case moved(version: UInt64)
  /// Its state does not allow it.
  case refused(Withholding)
  /// It takes no event now.
  case busy
  /// It was not asked: it does not run.
  case unavailable
  /// It was asked, and has not answered.
  case unknown
}
