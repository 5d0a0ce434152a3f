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
