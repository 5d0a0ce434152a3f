/// An event for several machines at once: the name of a case and one payload.
///
/// Each participant has an event type of its own, with a case of this name. The payload reaches it as
/// JSON does: fields are told by their names.
public struct SynchronizedEvent: Sendable {
  /// The name of the case.
  public let name: String
  private let content: Content

  private enum Content: Sendable {
    case typed(any MachineEvent)
    case json(JSONValue)
    case bare
  }

  private init(name: String, content: Content) {
    self.name = name
    self.content = content
  }

  /// The event as one of the participants knows it.
  public init(_ event: some MachineEvent) {
    name = EnumCases.name(of: event) ?? "\(event)"
    content = .typed(event)
  }

  /// The event of this name without a payload.
  public init(named name: String) {
    self.name = name
    content = .bare
  }

  /// The event as it stands in JSON: `{"start":{"floor":3}}`, or a bare `"start"`.
  /// - Throws: ``SynchronizedEventError`` where the JSON is not that of a case.
  public init(json: JSONValue) throws(SynchronizedEventError) {
    switch json {
    case .string(let name):
      self.init(named: name)
    case .object(let members):
      guard members.count == 1, let name = members.keys.first else {
        throw .noCase(json)
      }
      self.init(name: name, content: members[name] == [:] ? .bare : .json(json))
    case .null, .bool, .integer, .number, .array: throw .noCase(json)
    }
  }

  /// The event as a participant's own type has it.
  /// - Throws: ``SynchronizedEventError`` where the type has no such case, or another payload.
  public func event<Event: MachineEvent>(
    as type: Event.Type = Event.self
  ) throws(SynchronizedEventError) -> Event {
    switch content {
    case .typed(let event as Event): return event
    case .bare, .typed, .json:
      if let bare = EnumCases<Event>.bareValue(named: name) { return bare }
      guard EnumCases<Event>.names.contains(name) else {
        throw .unknownCase(name, type: "\(type)")
      }
      do {
        return try json.decode(type)
      } catch {
        throw .otherPayload(name, type: "\(type)", problem: "\(error)")
      }
    }
  }

  /// The event as JSON.
  public var json: JSONValue {
    switch content {
    case .bare: return .object([name: [:]])
    case .json(let json): return json
    case .typed(let event):
      // What was encoded before it came here is encoded again without fail, but for a type that
      // throws at will; its receiver then misses the fields and says so.
      return (try? JSONValue(encoding: event)) ?? .object([name: [:]])
    }
  }
}

extension SynchronizedEvent: Hashable, CustomStringConvertible {
  /// Compares names and payloads.
  public static func == (left: SynchronizedEvent, right: SynchronizedEvent) -> Bool {
    left.name == right.name && left.json == right.json
  }

  /// Hashes the name.
  public func hash(into hasher: inout Hasher) { hasher.combine(name) }

  /// The event as Swift writes it, or as JSON.
  public var description: String {
    switch content {
    case .bare: name
    case .typed(let event): "\(event)"
    case .json(let json): json.text
    }
  }
}

/// Why a value is no event of a participant.
public enum SynchronizedEventError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The JSON is not that of an enum's case.
  case noCase(JSONValue)
  /// The participant's event type has no such case.
  case unknownCase(String, type: String)
  /// The case carries other fields in the participant's event type.
  case otherPayload(String, type: String, problem: String)

  /// A sentence that tells it.
  public var description: String {
    switch self {
    case .noCase(let json):
      "\(json.text) is no event; write one as \"name\" or {\"name\":{\"field\":value}}"
    case .unknownCase(let name, let type):
      "'\(type)' has no case '\(name)'"
    case .otherPayload(let name, let type, let problem):
      "the payload of '\(name)' is not that of '\(type)': \(problem)"
    }
  }
}

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
