import PipeMachines
import PipeSupport
import PipeWire

// Events that several nodes take together.
extension TopologyClient {
  /// Asks a composite for an event that its components take together, all or none.
  /// - Parameters:
  ///   - mode: Whether it is tried once, or until it is enabled.
  ///   - timeout: The longest wait for the answer, beyond what `mode` allows; `nil` is 5 s.
  /// - Returns: What became of it. `unknown` where nobody can tell yet: ``ask(_:about:timeout:)``.
  /// - Throws: ``TopologyClientError``; `unknownOutcome` where the composite did not answer.
  public func synchronize(
    _ composite: String, _ event: some MachineEvent, mode: SynchronizedMode = .try,
    timeout: Duration? = nil
  ) async throws -> SynchronizedReply {
    try await synchronize(
      composite, json: JSONValue(parsing: EventCodec().encode(event)), mode: mode,
      timeout: timeout)
  }

  /// Asks a composite for an event given as JSON: a bare label as a string, or
  /// `{"label": {"field": value}}`.
  public func synchronize(
    _ composite: String, json event: JSONValue, mode: SynchronizedMode = .try,
    timeout: Duration? = nil
  ) async throws -> SynchronizedReply {
    let (flag, limit): (SynchronizeFlag, Duration?) =
      switch mode {
      case .try: (.try, .zero)
      case .await(let limit): (.await, limit)
      }
    // Zero is without limit; so long a wait is as good as that.
    let count = limit.map { flag == .await ? UInt32(clamping: max(1, $0.wholeMilliseconds)) : 0 }
    let reply = try await exchangeTransaction(
      composite, try Self.body(composite, event), flag, count: count ?? 0,
      timeout: (timeout ?? answerTimeout) + (limit ?? Self.unlimited))
    guard case .atomic(let answer) = reply else {
      throw TopologyClientError.outOfPlace
    }
    return answer
  }

  /// Asks each participant of a composite's event to take it for itself; there is no all or none.
  /// - Returns: What each participant did.
  public func broadcast(
    _ composite: String, json event: JSONValue, timeout: Duration? = nil
  ) async throws -> [String: BroadcastResult] {
    let reply = try await exchangeTransaction(
      composite, try Self.body(composite, event), .broadcast, count: 0,
      timeout: timeout ?? answerTimeout)
    guard case .broadcast(let results) = reply else {
      throw TopologyClientError.outOfPlace
    }
    return results
  }

  /// Asks a composite what has become of a transaction that was not known.
  public func ask(
    _ composite: String, about transaction: TransactionID, timeout: Duration? = nil
  ) async throws -> SynchronizedReply {
    let reply = try await exchangeTransaction(
      composite, Array("\(transaction)".utf8), .ask, count: 0, timeout: timeout ?? answerTimeout)
    switch reply {
    case .atomic(let answer): return answer
    case .broadcast:
      throw TopologyClientError.invalidEvent(composite, "transaction \(transaction) is a broadcast")
    }
  }

  private static let unlimited: Duration = .seconds(100 * 365 * 86_400)

  private static func body(_ composite: String, _ event: JSONValue) throws -> [UInt8] {
    let bytes = event.bytes
    guard bytes.count + composite.utf8.count < WireLimits.eventByteCount else {
      throw TopologyClientError.invalidEvent(
        composite,
        "the event has \(bytes.count) bytes; the limit is \(WireLimits.eventByteCount)")
    }
    return TransactionBody(composite: composite, event: bytes).bytes
  }

  private func exchangeTransaction(
    _ composite: String, _ body: [UInt8], _ flag: SynchronizeFlag, count: UInt32,
    timeout: Duration
  ) async throws -> TransactionReply {
    do {
      let answer = try await exchange(
        composite, .synchronize(body, flag, count: count), timeout: timeout)
      guard case .synchronized(let reply) = answer else {
        throw TopologyClientError.outOfPlace
      }
      return reply
    } catch TopologyClientError.nodeDown(let name, _) where flag != .broadcast && flag != .ask {
      // Nobody was asked.
      return .atomic(.unavailable(name))
    }
  }
}
