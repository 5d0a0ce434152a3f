/// An event for several machines at once: the name of a case and one payload.
///
/// Each participant has its own event type with a case of this name. The payload is converted as
/// JSON: fields are matched by their names.
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

  /// Makes a synchronized event from an event of a participant's own event type.
  public init(_ event: some MachineEvent) {
    name = EnumCases.name(of: event) ?? "\(event)"
    content = .typed(event)
  }

  /// Makes an event with this name and without a payload.
  public init(named name: String) {
    self.name = name
    content = .bare
  }

  /// Makes an event from JSON: `{"start":{"floor":3}}`, or a bare `"start"`.
  /// - Throws: ``SynchronizedEventError`` if the JSON does not represent an enum case.
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

  /// Returns the event in a participant's own event type.
  /// - Throws: ``SynchronizedEventError`` if the type has no such case, or if the case has another
  ///   payload.
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
        throw .payloadMismatch(name, type: "\(type)", problem: "\(error)")
      }
    }
  }

  /// The event as JSON.
  public var json: JSONValue {
    switch content {
    case .bare: return .object([name: [:]])
    case .json(let json): return json
    case .typed(let event):
      // If the event's type throws an error while it is encoded, the JSON has no fields, and the
      // receiver reports the missing fields.
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

  /// The Swift description of the event, or its JSON.
  public var description: String {
    switch content {
    case .bare: name
    case .typed(let event): "\(event)"
    case .json(let json): json.text
    }
  }
}

/// The reason why a value is not an event of a participant.
public enum SynchronizedEventError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The JSON does not represent an enum case.
  case noCase(JSONValue)
  /// The participant's event type has no such case.
  case unknownCase(String, type: String)
  /// The case has other fields in the participant's event type.
  case payloadMismatch(String, type: String, problem: String)

  /// A message that describes the error.
  public var description: String {
    switch self {
    case .noCase(let json):
      "\(json.text) is not a valid event; write \"name\" or {\"name\":{\"field\":value}}"
    case .unknownCase(let name, let type):
      "'\(type)' has no case '\(name)'"
    case .payloadMismatch(let name, let type, let problem):
      "the payload of event '\(name)' does not match type '\(type)': \(problem)"
    }
  }
}

/// A participant that refuses an event, with the reason.
public struct BlockingParticipant: Hashable, Codable, Sendable {
  /// The name of the participant.
  public var participant: String
  /// The state of the participant, as JSON.
  public var state: JSONValue
  /// The number of steps that the participant has taken; `nil` for a machine that is not running.
  public var version: UInt64?
  /// The reason for the refusal, such as a missing transition or a thrown error.
  public var reason: Refusal

  /// Makes a value from its parts.
  public init(participant: String, state: JSONValue, version: UInt64?, reason: Refusal) {
    self.participant = participant
    self.state = state
    self.version = version
    self.reason = reason
  }
}

extension BlockingParticipant: CustomStringConvertible {
  /// A message that describes the refusal.
  public var description: String {
    "'\(participant)' refuses the event in state \(state.text): \(reason.wording)"
  }
}

/// The outcome of a synchronized event. The caller receives exactly one outcome.
public enum SynchronizedReply: Hashable, Codable, Sendable {
  /// All participants have accepted the event. `versions` has the new version of each participant.
  case committed(TransactionID, versions: [String: UInt64])
  /// No participant has accepted the event, because the states of these participants do not allow
  /// the event.
  case refused([BlockingParticipant])
  /// No participant has accepted the event, because these participants cannot accept events now.
  case busy([String])
  /// No participant has accepted the event, because this participant, or the composite itself, is
  /// not running.
  case unavailable(String)
  /// The outcome is not known yet: some, all or no participants may have accepted the event. Query
  /// the outcome again with this number.
  case unknown(TransactionID)
}

extension SynchronizedReply {
  /// Whether all participants have accepted the event.
  public var isCommitted: Bool {
    if case .committed = self { true } else { false }
  }
}

/// The mode in which a synchronized event is tried.
public enum SynchronizedMode: Hashable, Codable, Sendable {
  /// Tries once. An event that is not enabled is refused.
  case `try`
  /// Waits until the event is enabled, at most for the given time; `nil` waits without limit.
  case await(Duration?)
}

/// The outcome of a broadcast event at one participant. In a broadcast, each participant accepts or
/// refuses the event independently.
public enum BroadcastResult: Hashable, Sendable {
  /// The participant has accepted the event, and now has this version.
  case accepted(version: UInt64)
  /// The state of the participant does not allow the event.
  case refused(BlockingParticipant)
  /// The participant cannot accept events now.
  case busy
  /// The participant did not receive the event, because it is not running.
  case unavailable
  /// The event was sent to the participant, but the participant has not answered.
  case unknown
}
