import PipeMachines

/// The answer to a client's request.
package enum RequestReply: Sendable {
  /// The node accepted the event. `version` and `state` are the node's version and state after the
  /// event.
  case accepted(version: UInt64, state: [UInt8])
  /// The machine refused the event in this state.
  case refused(Refusal, version: UInt64, state: [UInt8])
  /// The node accepts no input now. The text is the reason.
  case busy(String)
  /// The request does not contain an event of the machine. The text is the error.
  case invalid(String)
  /// The node does not accept the request now, and the client must send it again with the same
  /// number. The node's current process has not applied the request. An earlier process may have.
  case unavailable(String)
  /// The node has forgotten the client's earlier requests, so it does not apply this request, which
  /// may already have been applied. The client may send new requests with numbers above `through`.
  case forgotten(through: UInt64)
  /// The node has carried out a request that is not a step.
  case done
  /// The outcome of a synchronized event.
  case synchronized(TransactionReply)
  /// The node's hypothetical responses to events, as JSON.
  case explained([UInt8])
  /// The possible steps of a gated node, and the outcome of its step, as JSON.
  case gated([UInt8])

  /// The code of a reply, which is the `count` of the frame's header.
  package enum Code: UInt32, Sendable {
    case accepted = 0, refused = 1, busy = 2, invalid = 3, unavailable = 4, done = 5, synchronized =
      6
    case explained = 7
    /// The commit of a synchronized event, reported to the participant's effect that requested it.
    case committed = 8
    case forgotten = 9
    case gated = 10
  }

  /// Returns the frame that answers a request.
  package func frame(to request: UInt64) -> (header: FrameHeader, body: [UInt8]) {
    let (code, version, body) = encodedParts
    let header = FrameHeader(
      .reply, count: code.rawValue, sequence: request, incarnationOrSession: version)
    return (header, body)
  }

  private var encodedParts: (code: Code, version: UInt64, body: [UInt8]) {
    switch self {
    case .accepted(let version, let state):
      // The reply leaves out a state that was dropped, or that the client does not need.
      guard !state.isEmpty else { return (.accepted, version, Array("{}".utf8)) }
      return (.accepted, version, Array(#"{"state":"#.utf8) + state + Array("}".utf8))
    case .refused(let refusal, let version, let state):
      // The state is JSON already, and is appended unchanged.
      var body = JSONValue.object(refusal.recordMembers).bytes
      guard !state.isEmpty else { return (.refused, version, body) }
      body.removeLast()
      body += Array(#","state":"#.utf8)
      return (.refused, version, body + state + Array("}".utf8))
    case .busy(let text): return (.busy, 0, Self.errorBody(text))
    case .invalid(let text): return (.invalid, 0, Self.errorBody(text))
    case .unavailable(let text): return (.unavailable, 0, Self.errorBody(text))
    case .forgotten(let last):
      return (
        .forgotten, last,
        Self.errorBody(
          "the node no longer knows whether the request was "
            + "applied")
      )
    case .done: return (.done, 0, [])
    case .synchronized(let reply): return (.synchronized, 0, reply.json.bytes)
    case .explained(let json): return (.explained, 0, json)
    case .gated(let json): return (.gated, 0, json)
    }
  }

  private static func errorBody(_ text: String) -> [UInt8] {
    JSONValue.object(["error": .string(text)]).bytes
  }
}

// The format of a refusal in JSON records: `reason` is its code, and `error` the text of a thrown
// error.

extension Refusal {
  /// The members that represent the refusal in a record.
  package var recordMembers: [String: JSONValue] {
    var recordMembers: [String: JSONValue] = ["reason": .string(code)]
    if let error { recordMembers["error"] = .string(error) }
    return recordMembers
  }

  /// Reads a refusal that was written as ``recordMembers``; `nil` if the record contains none.
  package init?(of record: JSONValue?) {
    guard let code = record?["reason"]?.string else { return nil }
    self.init(code: code, error: record?["error"]?.string)
  }
}

/// The identity of a client's request, which stays the same when the request is sent again.
package struct RequestKey: Hashable, Sendable {
  /// The client's random number; 0 if the node does not have to recognize repeated requests.
  package var client: UInt64
  package var id: UInt64

  package init(client: UInt64, id: UInt64) {
    self.client = client
    self.id = id
  }

  /// The flag of a request whose client needs no state in the reply.
  package static let withoutStateFlag: UInt8 = 1

  /// The upper limit of request numbers. All requests have lower numbers.
  package static let idLimit: UInt64 = 1 << 62

  /// Returns the number of a client's first request to a node. The number is higher than the
  /// numbers of earlier clients' requests, which the node may have forgotten.
  /// - Parameter time: The current time. Unit: nanoseconds since 1970.
  package static func firstID(at time: Int64) -> UInt64 {
    // The time in milliseconds is followed by 20 bits: a client sends at most 2^20 requests in a
    // millisecond.
    min(UInt64(max(0, time) / 1_000_000), idLimit >> 21) << 20 | 1
  }
}
