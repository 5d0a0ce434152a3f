import PipeMachines
import PipeSupport
import PipeWire

// What callers ask for.
extension CoordinatorContent {
  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from peer: [UInt8],
    reply: @escaping (RequestReply) -> Void
  ) {
    if !SynchronizeFlag.isSettling(header) { messages.received += 1 }
    synchronize(header, body) { [weak self] answer in
      self?.messages.sent += 1
      reply(answer)
    }
  }

  /// Takes what a caller asks for, at the inbox or as a participant.
  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void
  ) {
    let id =
      header.number == 0
      ? unnamed() : RequestID(caller: String(header.number), number: header.sequence)
    let mode: TransactionMode
    switch SynchronizeFlag(rawValue: header.flags) {
    case .try: mode = .try
    case .await: mode = .await(header.count == 0 ? nil : .milliseconds(Int64(header.count)))
    case .broadcast: mode = .broadcast
    case .ask:
      guard let transaction = TransactionID(String(decoding: body, as: UTF8.self)) else {
        return reply(.invalid("the number of a transaction is like 3.17"))
      }
      keep(id, reply)
      return perform(coordinator.ask(id, for: transaction))
    case .withdraw: return perform(coordinator.withdraw(id))
    case .settle: return coordinator.settle(id.caller, before: id.number)
    case nil: return reply(.invalid("there is no mode \(header.flags)"))
    }
    do {
      let request = try request(Array(body), mode)
      keep(id, reply)
      perform(coordinator.request(id, request))
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  /// The request that a body asks for.
  /// - Throws: Why the composite cannot be asked for it.
  func request(_ bytes: [UInt8], _ mode: TransactionMode) throws -> TransactionRequest {
    reach(.synchronizeReceived)
    guard let body = TransactionBody(bytes) else {
      throw NodeProblem("the body is a composite's name, a line feed and an event")
    }
    guard let event = body.eventName else {
      throw SynchronizedEventError.noCase(
        (try? JSONValue(parsing: body.event))
          ?? .string(String(decoding: body.event, as: UTF8.self)))
    }
    guard let composite = composites[body.composite] else {
      throw RoutingError.unknownComposite(body.composite)
    }
    guard let vector = composite.vector(of: event) else {
      throw NodeProblem(composite.refusal(of: event))
    }
    // Checked here, since a participant could only say that it has no transition.
    if let problem = try composite.problem(withPayloadOf: body.event, event) {
      throw NodeProblem(problem)
    }
    return TransactionRequest(
      composite: vector.composite, event: event, participants: vector.participants,
      body: TransactionBody(composite: vector.composite, event: body.event).bytes,
      question: body.event, mode: mode)
  }
}

extension CompositePlan {
  /// What is wrong with an event's payload, as far as its description tells.
  fileprivate func problem(
    withPayloadOf bytes: [UInt8], _ name: String
  ) throws(SynchronizedEventError) -> String? {
    guard let description = events.first(where: { $0.name == name }) else { return nil }
    // A bare label is a whole event where there is no payload.
    if description.fields.isEmpty, bytes.first == UInt8(ascii: "\"") { return nil }
    guard let json = try? JSONValue(parsing: bytes) else {
      throw .noCase(.string(String(decoding: bytes, as: UTF8.self)))
    }
    return [description].problem(with: json, noun: "event", owner: "composite '\(self.name)'")
  }
}
