import PipeMachines

/// The answer to a client's request.
package enum RequestReply: Sendable {
  /// The event was taken: the version and the state after it.
  case moved(version: UInt64, state: [UInt8])
  /// The machine refused it in this state.
  case refused(Refusal, version: UInt64, state: [UInt8])
  /// The node takes no input now; the text says why.
  case busy(String)
  /// The bytes are not an event of the machine.
  case invalid(String)
  /// The node does not take the request now, and the client sends it again under its number. This process has not
  /// applied it; an earlier one may have.
  case unavailable(String)
  /// The node has forgotten the client: the request may have been applied, and is not applied now. Requests with higher
  /// numbers than this one are new.
  case forgotten(through: UInt64)
  /// What was asked for is done; it was no step.
  case done
  /// What became of a synchronized event.
  case synchronized(TransactionReply)
  /// What would be said to events, as JSON.
  case explained([UInt8])

  /// The code in the reply's header.
  package enum Code: UInt32, Sendable {
    case moved = 0, refused = 1, busy = 2, invalid = 3, unavailable = 4, done = 5, synchronized = 6
    case explained = 7
    /// A commit, as an effect of a participant is told of it.
    case committed = 8
    case forgotten = 9
  }

  /// The frame that answers a request.
  package func frame(to request: UInt64) -> (header: FrameHeader, body: [UInt8]) {
    let (code, version, body) = parts
    let header = FrameHeader(.reply, count: code.rawValue, sequence: request, number: version)
    return (header, body)
  }

  private var parts: (code: Code, version: UInt64, body: [UInt8]) {
    switch self {
    case .moved(let version, let state):
      // A state that was dropped is left out.
      guard !state.isEmpty else { return (.moved, version, Array("{}".utf8)) }
      return (.moved, version, Array(#"{"state":"#.utf8) + state + Array("}".utf8))
    case .refused(let refusal, let version, let state):
      // The state is JSON already, and joined to the rest as it is.
      var body = JSONValue.object(refusal.members).bytes
      guard !state.isEmpty else { return (.refused, version, body) }
      body.removeLast()
      body += Array(#","state":"#.utf8)
      return (.refused, version, body + state + Array("}".utf8))
    case .busy(let text): return (.busy, 0, Self.error(text))
    case .invalid(let text): return (.invalid, 0, Self.error(text))
    case .unavailable(let text): return (.unavailable, 0, Self.error(text))
    case .forgotten(let last):
      return (.forgotten, last, Self.error("the node no longer knows whether it was applied"))
    case .done: return (.done, 0, [])
    case .synchronized(let reply): return (.synchronized, 0, reply.json.bytes)
    case .explained(let json): return (.explained, 0, json)
    }
  }

  private static func error(_ text: String) -> [UInt8] {
    JSONValue.object(["error": .string(text)]).bytes
  }
}

// A refusal in JSON records: its word under `reason`, and the text of a thrown error under `error`.

extension Refusal {
  /// The members of a record that tell it.
  package var members: [String: JSONValue] {
    var members: [String: JSONValue] = ["reason": .string(code)]
    if let error { members["error"] = .string(error) }
    return members
  }

  /// Reads what ``members`` tells; `nil` where the record tells no refusal.
  package init?(of record: JSONValue?) {
    guard let code = record?["reason"]?.string else { return nil }
    self.init(code: code, error: record?["error"]?.string)
  }
}

/// Tells a request of a client apart from all others, also when it is sent again.
package struct RequestKey: Hashable, Sendable {
  /// The client's own random number; 0 where it wants no request to be told apart.
  package var client: UInt64
  package var id: UInt64

  package init(client: UInt64, id: UInt64) {
    self.client = client
    self.id = id
  }

  /// No request has this number or a higher one.
  package static let idLimit: UInt64 = 1 << 62

  /// The first number of a client's requests to a node: higher than those of clients that began before, which the
  /// node may have forgotten.
  /// - Parameter time: Unit: nanoseconds since 1970.
  package static func firstID(at time: Int64) -> UInt64 {
    // At most 2^20 requests in a millisecond.
    min(UInt64(max(0, time) / 1_000_000), idLimit >> 21) << 20 | 1
  }
}
