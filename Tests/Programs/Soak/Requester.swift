import PipeRuntime
import NumberMachines

/// Sends requests to one source until each is applied exactly once.
///
/// If the source has a journal, the client itself retries a request, and the source recognizes the
/// duplicate. Without a journal, this type handles unknown outcomes: it asks the node for its
/// state, and sends the request again only if the state does not include it.
struct Requester {
  let client: ReattachingClient
  let node: String
  let durability: Durability

  /// The longest time for one request. A volatile source may be stuck forever behind lost events,
  /// or behind repeated events that wait at their receiver.
  private var limit: Duration { durability == .volatile ? .seconds(10) : client.patience }

  /// Requests the source to send its numbers up to this one.
  func go(until: Int) async throws {
    // It is refused if an earlier attempt was applied.
    try await retry("go(until: \(until))") { try await send(.go(until: until)) != nil }
  }

  /// Sends the source its next numbered order.
  func order(_ n: Int) async throws {
    try await retry("order(n: \(n))") {
      if try await send(.order(n: n)) != nil { return true }
      // The answering process took this request after the order. Or the process that might have
      // taken the order had ended before.
      guard let state = try await state() else { return false }
      let orders = try state.caseMembers?["orders"]?.decode(Tallies.self)
      return (orders?.routes["client"]?.last ?? 0) >= n
    }
  }

  /// Returns the node's state from its answer to an event that it refuses in every state.
  private func state() async throws -> JSONValue? {
    try await until("done(count: 0)") {
      guard case .refused(_, let state)? = try await send(.done(count: 0)) else { return nil }
      return state
    }
  }

  /// Returns the outcome of the event; `nil` if it is unknown, which is possible only without a
  /// journal.
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

/// The reason why a round could not be completed.
struct SoakFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
