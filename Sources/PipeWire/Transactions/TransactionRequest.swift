import PipeMachines

/// The identity of a caller's request for a synchronized event. A caller never uses a number twice.
package struct RequestID: Hashable, Codable, Sendable {
  /// The name of the caller. No other caller, including callers that have ended, has this name.
  package var caller: String
  package var number: UInt64

  package init(caller: String, number: UInt64) {
    self.caller = caller
    self.number = number
  }

  /// Creates the id of a client's request. `client` is the client's random number.
  package init(client: UInt64, number: UInt64) {
    self.init(caller: Self.clientPrefix + String(client), number: number)
  }

  /// Creates the id of a request by a participant's effect, or of an event that a model has
  /// announced.
  /// - Parameter scope: The id of the participant's journal, or the random number of its process.
  package init(scope: UInt64, number: UInt64) {
    self.init(caller: String(scope), number: number)
  }

  private static let clientPrefix = "client."
  package static let unnamedPrefix = "unnamed."

  package static func isClient(_ caller: String) -> Bool { caller.hasPrefix(clientPrefix) }

  /// Whether the caller is a client. Clients number their requests in ascending order.
  package var isFromClient: Bool { Self.isClient(caller) }

  /// Whether the caller is unnamed, so that the request cannot be sent again.
  package var isUnnamed: Bool { caller.hasPrefix(Self.unnamedPrefix) }

  /// Whether a model has announced the event.
  package var isAnnounced: Bool { number >> 63 != 0 }

  /// The number of the effect within its node; `nil` if no effect requested the event.
  package var effect: UInt64? {
    guard caller.utf8.allSatisfy({ (0x30...0x39).contains($0) }), number >> 63 == 0 else {
      return nil
    }
    return number >> 16
  }

  /// Creates the id of an event that arrived through a pipe. The coordinator requests such events
  /// one after the other.
  package init(pipe: String, stream: UInt64, sequence: UInt64) {
    self.init(caller: "pipe/\(pipe)/\(stream)", number: sequence)
  }
}

/// The way in which participants accept an event.
package enum TransactionMode: Hashable, Sendable {
  /// All participants accept the event, or none does. The coordinator tries once.
  case `try`
  /// All participants accept the event, or none does. The coordinator tries again whenever the
  /// event may have become enabled, for this duration; `nil` means no limit.
  case await(Duration?)
  /// Each participant accepts or refuses the event independently.
  case broadcast
}

/// A caller's request for a synchronized event, with the event's participants.
package struct TransactionRequest: Hashable, Sendable {
  package var composite: String
  /// The name of the event's case.
  package var event: String
  /// The names of the event's participants: nodes, or instances of nodes with a `key`.
  package var participants: [String]
  /// The encoded ``TransactionBody``.
  package var body: [UInt8]
  /// The part of the body that, together with the participants' states, determines the
  /// participants' answers.
  package var decisiveBody: [UInt8]
  package var mode: TransactionMode
  /// The time limit of the participants' asynchronous transitions.
  package var evaluationLimit: Duration
  /// The participant whose effect made the request, and the lower half of the request's number;
  /// `nil` if no effect made the request.
  package var emitter: (participant: String, number: UInt32)? {
    get { emitterName.map { ($0, emitterNumber) } }
    set { (emitterName, emitterNumber) = (newValue?.participant, newValue?.number ?? 0) }
  }
  private var emitterName: String?
  private var emitterNumber: UInt32 = 0

  /// - Parameter decisiveBody: The event alone; `nil` for the whole body.
  package init(
    composite: String, event: String, participants: [String], body: [UInt8],
    decisiveBody: [UInt8]? = nil, mode: TransactionMode, evaluationLimit: Duration = .zero
  ) {
    self.evaluationLimit = evaluationLimit
    self.decisiveBody = decisiveBody ?? body
    self.composite = composite
    self.event = event
    self.participants = participants
    self.body = body
    self.mode = mode
  }
}

/// The body of `synchronize`, `prepare` and `deliver`: the composite's name, a line feed, and the
/// event as JSON.
package struct TransactionBody {
  package var composite: String
  /// The event as JSON.
  package var event: [UInt8]

  private static let lineFeed = UInt8(ascii: "\n")

  package init(composite: String, event: [UInt8]) {
    self.composite = composite
    self.event = event
  }

  /// Parses a body; `nil` if it lacks the name or the event.
  package init?(_ bytes: [UInt8]) {
    // Participants parse a body for each event. Generic code of another module would be slower, so
    // this code uses raw bytes.
    let parts: (composite: String, event: [UInt8])? = bytes.withUnsafeBytes { bytes in
      guard let end = bytes.firstIndex(of: Self.lineFeed), end > 0, end + 1 < bytes.count else {
        return nil
      }
      return (
        String(decoding: UnsafeRawBufferPointer(rebasing: bytes[..<end]), as: UTF8.self),
        Array(UnsafeRawBufferPointer(rebasing: bytes[(end + 1)...]))
      )
    }
    guard let parts else { return nil }
    (composite, event) = parts
  }

  package var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(composite.utf8.count + 1 + event.count)
    bytes += composite.utf8
    bytes.append(Self.lineFeed)
    bytes += event
    return bytes
  }

  /// The name of the event's case; `nil` if the JSON does not encode a case.
  package var eventName: String? {
    // Both forms of an event begin with the case's name: `"stop"` and `{"start":{"floor":3}}`.
    let quote = UInt8(ascii: "\"")
    guard let start = event.firstIndex(of: quote),
      event[..<start].allSatisfy({ [0x7B, 0x20, 0x09, 0x0A, 0x0D].contains($0) }),
      let end = event[(start + 1)...].firstIndex(of: quote)
    else { return nil }
    return String(decoding: event[(start + 1)..<end], as: UTF8.self)
  }
}

/// The flags of a `synchronize` frame, which select the kind of request to the coordinator.
package enum SynchronizeFlag: UInt8, Sendable {
  /// All participants accept the event, or none does. The coordinator tries once.
  case `try` = 0
  /// All participants accept the event, or none does. The coordinator tries again for `count`
  /// milliseconds; 0 means no limit.
  case await = 1
  /// Each participant accepts or refuses the event independently.
  case broadcast = 2
  /// Asks for the outcome of the transaction that the body names.
  case ask = 3
  /// Withdraws the request with this number, unless a transaction for the request is in progress.
  case withdraw = 4
  /// The caller no longer waits for answers to requests with lower numbers.
  case acknowledge = 5

  /// Whether the frame only acknowledges answers, and therefore belongs to no event.
  package static func isAcknowledgement(_ header: FrameHeader) -> Bool {
    // This check runs for every message. `==` would be slower, since it compares raw values.
    guard case .synchronize = header.kind else { return false }
    return header.flags == acknowledge.rawValue
  }
}

// Checks of requests against the plans of composites.
extension TransactionRequest {
  /// Reads the body of a `synchronize`.
  /// - Parameter composites: The composites of this coordinator, by name.
  package init(
    reading bytes: [UInt8], _ mode: TransactionMode, to composites: [String: CompositePlan]
  ) throws(TransactionRequestError) {
    guard let body = TransactionBody(bytes) else { throw .body }
    guard let event = body.eventName else { throw .noEvent(JSONValue(shown: body.event)) }
    guard let composite = composites[body.composite] else {
      throw .unknownComposite(body.composite)
    }
    guard let vector = composite.vector(of: event) else {
      throw .notSynchronized(composite.refusal(of: event))
    }
    // The payload is checked here for a better error: a participant could only answer that it has
    // no transition.
    try composite.checkPayload(of: body.event, event)
    self.init(
      composite: vector.composite, event: event,
      participants: try composite.participants(of: vector, body.event),
      body: TransactionBody(composite: vector.composite, event: body.event).bytes,
      decisiveBody: body.event, mode: mode, evaluationLimit: composite.evaluationLimit(of: event))
  }
}

extension CompositePlan {
  /// Returns the participants of an event. In a composite with a `key`, these are the instances
  /// that belong to the key in the event.
  fileprivate func participants(
    of vector: SyncVector, _ event: [UInt8]
  ) throws(TransactionRequestError) -> [String] {
    guard let key else { return vector.participants }
    var reader = InstanceKeyReader(field: key)
    do throws(InstanceKeyError) {
      let text = try reader.key(ofEvent: event).text
      return vector.participants.map { InstanceName(node: $0, key: text).description }
    } catch {
      throw .payload("composite '\(name)': \(error)")
    }
  }

  /// Throws if an event's payload does not match its description.
  fileprivate func checkPayload(
    of bytes: [UInt8], _ name: String
  ) throws(TransactionRequestError) {
    guard let description = events.first(where: { $0.name == name }) else { return }
    // An event without a payload is encoded as its name alone.
    if description.fields.isEmpty, bytes.first == UInt8(ascii: "\"") { return }
    guard let json = try? JSONValue(parsing: bytes) else {
      throw .noEvent(JSONValue(shown: bytes))
    }
    let owner = "composite '\(self.name)'"
    if let problem = [description].problem(with: json, noun: "event", owner: owner) {
      throw .payload(problem)
    }
  }
}

/// The reason why an event cannot be requested from a composite.
package enum TransactionRequestError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The body lacks the composite's name or the event.
  case body
  /// The JSON is not an event.
  case noEvent(JSONValue)
  case unknownComposite(String)
  /// The composite does not synchronize the event. The string is the reason.
  case notSynchronized(String)
  /// The event has an invalid payload. The string is a sentence that describes the error.
  case payload(String)

  /// A sentence that describes the error.
  package var description: String {
    switch self {
    case .body: "malformed body; expected a composite's name, a line feed and an event"
    case .noEvent(let json): SynchronizedEventError.noCase(json).description
    case .unknownComposite(let name): RoutingError.unknownComposite(name).description
    case .notSynchronized(let reason), .payload(let reason): reason
    }
  }
}

extension JSONValue {
  /// Parses JSON for display. Invalid JSON becomes text.
  package init(shown bytes: [UInt8]) {
    self = (try? JSONValue(parsing: bytes)) ?? .string(String(decoding: bytes, as: UTF8.self))
  }
}

/// A coordinator's answer to a caller.
package enum TransactionReply: Hashable, Sendable {
  /// All participants have accepted the event, or none has.
  case atomic(SynchronizedReply)
  /// Each participant has accepted or refused the event independently.
  case broadcast([String: BroadcastResult])
}

extension TransactionReply {
  /// The outcome of the event, by its name in JSON.
  package enum Outcome: String, CaseIterable, Sendable {
    case committed, refused, busy, unavailable, unknown, broadcast
  }

  package var outcome: Outcome {
    switch self {
    case .atomic(.committed): .committed
    case .atomic(.refused): .refused
    case .atomic(.busy): .busy
    case .atomic(.unavailable): .unavailable
    case .atomic(.unknown): .unknown
    case .broadcast: .broadcast
    }
  }
}

// The JSON format of answers to callers. `orchestrator send -o json` prints the same format.

extension TransactionReply {
  package var json: JSONValue {
    switch self {
    case .atomic(let reply): reply.record
    case .broadcast(let results):
      ["outcome": "broadcast", "results": .object(results.mapValues(\.record))]
    }
  }

  /// Parses the output of ``json``; `nil` for any other JSON.
  package init?(json: JSONValue) {
    if json["outcome"] == "broadcast" {
      guard case .object(let members)? = json["results"] else { return nil }
      var results: [String: BroadcastResult] = [:]
      for (participant, member) in members {
        guard let result = BroadcastResult(record: member) else { return nil }
        results[participant] = result
      }
      self = .broadcast(results)
    } else {
      guard let reply = SynchronizedReply(record: json) else { return nil }
      self = .atomic(reply)
    }
  }
}

extension SynchronizedReply {
  /// The reply as JSON.
  package var record: JSONValue {
    switch self {
    case .committed(let transaction, let versions):
      [
        "outcome": "committed", "transaction": .string("\(transaction)"),
        "versions": .object(versions.mapValues { .count($0) }),
      ]
    case .refused(let withholdings):
      ["outcome": "refused", "refusals": .array(withholdings.map(\.record))]
    case .busy(let participants):
      ["outcome": "busy", "participants": .texts(participants)]
    case .unavailable(let participant):
      ["outcome": "unavailable", "participant": .string(participant)]
    case .unknown(let transaction):
      ["outcome": "unknown", "transaction": .string("\(transaction)")]
    }
  }

  /// Parses the output of ``record``; `nil` for any other JSON.
  package init?(record: JSONValue) {
    let transaction = record["transaction"]?.string.flatMap { TransactionID($0) }
    switch record["outcome"]?.string {
    case "committed":
      guard let transaction, case .object(let members)? = record["versions"] else { return nil }
      self = .committed(
        transaction, versions: members.mapValues { UInt64(clamping: $0.integer ?? 0) })
    case "refused":
      guard case .array(let values)? = record["refusals"] else { return nil }
      self = .refused(values.compactMap { BlockingParticipant(record: $0) })
    case "busy":
      guard case .array(let values)? = record["participants"] else { return nil }
      self = .busy(values.compactMap(\.string))
    case "unavailable":
      guard let participant = record["participant"]?.string else { return nil }
      self = .unavailable(participant)
    case "unknown":
      guard let transaction else { return nil }
      self = .unknown(transaction)
    default: return nil
    }
  }
}

extension BlockingParticipant {
  fileprivate var record: JSONValue {
    var record = reason.recordMembers
    record["participant"] = .string(participant)
    record["state"] = state
    record["version"] = version.map { .count($0) } ?? .null
    return .object(record)
  }

  fileprivate init?(record: JSONValue) {
    guard let participant = record["participant"]?.string,
      let reason = Refusal(of: record)
    else { return nil }
    self.init(
      participant: participant, state: record["state"] ?? .null,
      version: record["version"]?.integer.map { UInt64(clamping: $0) }, reason: reason)
  }
}

extension BroadcastResult {
  fileprivate var record: JSONValue {
    switch self {
    case .accepted(let version):
      ["outcome": "accepted", "version": .count(version)]
    case .refused(let withholding): ["outcome": "refused", "refusal": withholding.record]
    case .busy: ["outcome": "busy"]
    case .unavailable: ["outcome": "unavailable"]
    case .unknown: ["outcome": "unknown"]
    }
  }

  fileprivate init?(record: JSONValue) {
    switch record["outcome"]?.string {
    case "accepted": self = .accepted(version: UInt64(clamping: record["version"]?.integer ?? 0))
    case "refused":
      guard let refusal = record["refusal"].flatMap({ BlockingParticipant(record: $0) }) else {
        return nil
      }
      self = .refused(refusal)
    case "busy": self = .busy
    case "unavailable": self = .unavailable
    case "unknown": self = .unknown
    default: return nil
    }
  }
}
