import PipeRuntime
import NumberMachines

/// Sends requests to a source, and makes sure that the source applies each request exactly once.
///
/// If the source has a journal, the client repeats a request, and the source recognizes the
/// repetition. Without a journal, the outcome of a request may be unknown. This type then queries
/// the node's state, and sends the request again only if the state does not include the request.
struct Requester {
  let client: ReattachingClient
  let node: String
  let durability: Durability

  /// The maximum time for a request. A volatile source may wait forever, after events were lost or
  /// repeated.
  private var limit: Duration { durability == .volatile ? .seconds(10) : client.patience }

  /// Requests that the source sends its numbers up to a given number.
  func go(until: Int) async throws {
    // The source refuses this request if an earlier attempt was applied.
    try await retry("go(until: \(until))") { try await send(.go(until: until)) != nil }
  }

  /// Sends the next numbered order to the source.
  func order(_ n: Int) async throws {
    try await retry("order(n: \(n))") {
      if try await send(.order(n: n)) != nil { return true }
      // The state shows whether the order was applied. Either the process that answers has taken
      // this request after the order, or the process that received the order has ended.
      guard let state = try await state() else { return false }
      let orders = try state.caseMembers?["orders"]?.decode(Tallies.self)
      return (orders?.routes["client"]?.last ?? 0) >= n
    }
  }

  /// Sends an event that the node refuses in every state, and returns the state from the answer.
  private func state() async throws -> JSONValue? {
    try await until("done(count: 0)") {
      guard case .refused(_, let state)? = try await send(.done(count: 0)) else { return nil }
      return state
    }
  }

  /// Sends an event and returns the outcome. `nil` if the outcome is unknown, which can occur only
  /// without a journal.
  private func send(_ event: NumberEvent) async throws -> RequestOutcome? {
    let isRecorded = durability != .volatile
    return try await until("\(event)") {
      do {
        return .some(
          .some(
            try await client.send(
              node, event, timeout: isRecorded ? limit : .seconds(5))))
      } catch let error as TopologyClientError {
        switch error {
        case .unknownOutcome where !isRecorded: return .some(.none)
        case .nodeDown, .busy, .timedOut: return nil
        default: throw error
        }
      }
    }
  }

  private func retry(_ what: String, _ attempt: () async throws -> Bool) async throws {
    _ = try await until(what) { try await attempt() ? true : nil }
  }

  private func until<Answer>(
    _ what: String, _ attempt: () async throws -> Answer?
  ) async throws -> Answer {
    let deadline = ContinuousClock.now + limit
    while true {
      if let answer = try await attempt() { return answer }
      guard ContinuousClock.now < deadline else {
        throw SoakFailure(
          "node '\(node)' did not apply the request \(what) within \(limit.shortText)")
      }
      try await Task.sleep(for: .milliseconds(2))
    }
  }
}

/// The reason why a round of the soak could not be completed.
struct SoakFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
