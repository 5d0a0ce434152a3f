import PipeRuntime
import NumberMachines

/// Sends requests to one source until each is applied, once.
///
/// Where the source keeps a journal, the client sends a request again by itself, and the source tells
/// it from a new one. Where it keeps none, all that a client does about an unknown outcome is here: it
/// asks the node for its state, and sends again only what that state does not hold.
struct Requester {
  let client: SteadyClient
  let node: String
  let durability: Durability

  /// The longest time that one request may take. Where nothing is recorded, a source may stand still for
  /// ever behind events that were lost, or came again and wait at their receiver.
  private var limit: Duration { durability == .volatile ? .seconds(10) : client.patience }

  /// Has the source send its numbers up to this one.
  func go(until: Int) async throws {
    // It is refused where an earlier try has been applied.
    try await retry("go(until: \(until))") { try await send(.go(until: until)) != nil }
  }

  /// Gives the source its next numbered order.
  func order(_ n: Int) async throws {
    try await retry("order(n: \(n))") {
      if try await send(.order(n: n)) != nil { return true }
      // The answer comes from a process that took it after it had taken the order, or after the
      // process that might have taken the order was gone.
      guard let state = try await state() else { return false }
      let orders = try state.caseMembers?["orders"]?.decode(Tallies.self)
      return (orders?.routes["client"]?.last ?? 0) >= n
    }
  }

  /// The node's own answer to an event that it refuses in every state.
  private func state() async throws -> JSONValue? {
    try await until("done(count: 0)") {
      guard case .refused(_, let state)? = try await send(.done(count: 0)) else { return nil }
      return state
    }
  }

  /// What became of the event, or `nil` where nobody knows, which is so without a journal alone.
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

/// Why a round could not be carried to its end.
struct SoakFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
