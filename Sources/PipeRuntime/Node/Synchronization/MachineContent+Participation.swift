// The machine's part in events that it takes together with others.
extension MachineContent: ParticipatingMachine {
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) {
    let restored = restored?.participation
    guard let part = configuration.participation else {
      guard let prepared = restored?.prepared, prepared.move.version == engine.version + 1 else {
        return
      }
      return log.warning(
        "the node may have promised to take part in synchronized event \(prepared.transaction), "
          + "and is in no composite any more")
    }
    let participation = Participation(
      part, machine: self, restored: restored, version: engine.version, services: services,
      log: log)
    self.participation = participation
    let held = engine.isHeld
    engine.isHeld = { participation.isFrozen || held?() == true }
  }

  func vote(on bytes: [UInt8]) -> RendezvousParticipant.Vote {
    guard engine.canTakeInput, !outs.contains(where: \.isFull) else { return .withheld(.busy) }
    guard let body = SynchronizedBody(bytes) else {
      log.warning("a synchronized event came without a composite's name or an event")
      return withheld(.noTransition)
    }
    let event: Event
    do { event = try events.decode(body.event) } catch {
      log.warning("composite '\(body.composite)': a synchronized event was refused: \(error)")
      return withheld(.noTransition)
    }
    switch engine.machine.step(engine.state, event) {
    case .refused(let refusal): return withheld(refusal)
    // Nobody can promise where it leads.
    case .suspended: return .withheld(.busy)
    case .next(let next):
      guard let state = try? states.encode(next) else { return .withheld(.busy) }
      promised = (event, next)
      return .enabled(ParticipantMove(version: engine.version + 1, state: state))
    }
  }

  private func withheld(_ refusal: Refusal) -> RendezvousParticipant.Vote {
    let state = (try? states.encode(engine.state)) ?? Array("null".utf8)
    return .withheld(.refused(refusal, version: engine.version, state: state))
  }

  func enter(_ step: PreparedStep) {
    let body = SynchronizedBody(step.event)
    let cause = body?.composite ?? "synchronized"
    if let (event, next) = promised {
      promised = nil
      engine.take(event, leadingTo: next, cause: cause)
      return
    }
    // Promised by an earlier process.
    do {
      let next = try states.decode(step.move.state)
      engine.take(try body.map { try events.decode($0.event) }, leadingTo: next, cause: cause)
    } catch {
      onEnd?(
        "synchronized event \(step.transaction) is committed, and its step cannot be taken: \(error)"
      )
    }
  }
}

extension Engine {
  /// Takes a step whose transition was evaluated before, in the same state.
  func take(_ event: Event?, leadingTo next: State, cause: String) {
    if hasEventMiddleware, let event { observe(event) }
    move(to: next) { onEntry?(state, version, cause) }
  }
}
