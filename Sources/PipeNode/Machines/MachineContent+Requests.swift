import PipeMachines
import PipeWire

/// What a client asks of a node.
enum ClientInput<Event> {
  /// To apply an event.
  case event(Event, RequestKey)
  /// To apply the event of a dead letter, which is then gone.
  case letter(UInt64, Event, reply: (RequestReply) -> Void)
}

// Events that clients send.
extension MachineContent {
  /// Requests that may wait. Unit: requests.
  private static var waitingRequests: Int { 1_024 }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64,
    reply: @escaping (RequestReply) -> Void
  ) {
    let event: Event
    do { event = try events.decode(body) } catch { return reply(.invalid("\(error)")) }
    if let participant, let problem = participant.problem(withDirect: EnumCases.name(of: event)) {
      return reply(.invalid(problem))
    }
    var key = key
    switch requests.admit(&key, oldest: oldest, reply: reply) {
    case .answered(let answer): unrecorded.reply(answer, to: reply)
    case .waiting: break
    case .new:
      // One that waits, or was applied, is not told that nothing was.
      if inputs.count >= Self.waitingRequests {
        answer(key, .busy("\(Self.waitingRequests) requests wait already"))
      } else if let full = outs.first(where: \.isFull) {
        answer(key, .busy("its pipe '\(full.name)' is full"))
      } else if let poison, poison.matches(key.source, key.id) {
        if !poison.isParked {
          let refused = RefusedEvent(
            pipe: "request", sequence: key.id, event: json(of: event), reason: poison.reason,
            state: stateJSON, stateText: stateText, version: engine.version)
          _ = refused.settle(.record, in: &letters, log: log)
          self.poison?.isParked = true
        }
        answer(key, .invalid(poison.reason + "; it is a dead letter now"))
      } else {
        inputs.append(.event(event, key))
      }
    }
  }

  /// Answers a request that is not applied.
  private func answer(_ key: RequestKey, _ reply: RequestReply) {
    requests.finish(key, reply)?(reply)
  }

  @export(interface)
  func letter(_ id: UInt64, drops: Bool, reply: @escaping (RequestReply) -> Void) {
    guard let letter = letters[id] else {
      return reply(.invalid("it has no dead letter \(id)"))
    }
    if drops {
      letters.remove(id)
      return unrecorded.reply(.done, to: reply)
    }
    do {
      let event = try events.decode(letter.event.bytes)
      if let problem = participant?.problem(withDirect: EnumCases.name(of: event)) {
        return reply(.invalid(problem))
      }
      inputs.append(.letter(id, event, reply: reply))
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  func take(_ input: ClientInput<Event>) {
    switch input {
    case .event(let event, let key):
      let mark = key.client == 0 ? nil : journal?.mark.source(key.source)
      mark?.begin(key.id)
      engine.take(event, cause: "request") { [self] outcome in
        mark?.end()
        let answer = answer(to: outcome)
        guard let reply = requests.finish(key, answer) else { return }
        unrecorded.reply(answer, to: reply)
      }
    case .letter(let id, let event, let reply): take(event, ofLetter: id, reply)
    }
  }

  @export(interface)
  private func take(_ event: Event, ofLetter id: UInt64, _ reply: @escaping (RequestReply) -> Void)
  {
    guard letters[id] != nil else { return reply(.invalid("it has no dead letter \(id)")) }
    engine.take(event, cause: "letter \(id)") { [self] outcome in
      if case .moved = outcome { letters.remove(id) }
      unrecorded.reply(answer(to: outcome), to: reply)
    }
  }

  private func answer(to outcome: StepOutcome<State>) -> RequestReply {
    let state = (try? states.encode(engine.state)) ?? []
    switch outcome {
    case .moved(_, let version):
      return .moved(version: version, state: state)
    case .refused(let refusal):
      return .refused(refusal, version: engine.version, state: state)
    case .pending:
      // Not told by an engine to those who wait for its outcome.
      return .unavailable("its step has not ended")
    }
  }
}
