import PipeMachines
import PipeSupport
import PipeWire

// The machine's part in events that it takes together with others.
extension MachineContent: ParticipatingMachine {
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) {
    let restored = restored?.participant
    guard let part = configuration.participant else {
      guard let prepared = restored?.prepared, prepared.move.version == engine.version + 1 else {
        return
      }
      return log.warning(
        "the node may have promised to take part in synchronized event \(prepared.transaction), "
          + "and is in no composite any more")
    }
    let participant = Participant(
      part, machine: participatingMachine ?? self, restored: restored, version: engine.version,
      services: services, log: log)
    self.participant = participant
    let isBlocked = engine.isBlocked
    engine.isBlocked = { participant.isFrozen || isBlocked?() == true }
  }

  func vote(on bytes: [UInt8]) -> ParticipantStateMachine.Vote {
    // A closure, since a key path would keep this from being compiled for the machine's types.
    guard engine.canTakeInput, !outs.contains(where: { $0.isFull }) else {
      return .withheld(.busy)
    }
    guard let body = TransactionBody(bytes) else {
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
    // Nobody can say beforehand where it leads.
    case .suspended: return withheld(.asynchronous)
    case .next(let next):
      guard let state = try? states.encode(next) else { return .withheld(.busy) }
      prepared = (event, next)
      return .enabled(ParticipantMove(version: engine.version + 1, state: state))
    }
  }

  private func withheld(_ refusal: Refusal) -> ParticipantStateMachine.Vote {
    let state = (try? states.encode(engine.state)) ?? Array("null".utf8)
    return .withheld(.refused(refusal, version: engine.version, state: state))
  }

  func tellState() { onEntry?(false) }

  func enter(_ step: PreparedStep, isCommitted: Bool) {
    self.isCommitted = isCommitted
    defer { self.isCommitted = false }
    let body = TransactionBody(step.event)
    let cause = body?.composite ?? "synchronized"
    if let (event, next) = prepared {
      prepared = nil
      engine.take(event, leadingTo: next, cause: cause)
      return
    }
    // Prepared by an earlier process.
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

// Events that effects give.
extension MachineContent {
  /// Handles what one of the engine's tasks has posted. An event that is synchronized goes to its
  /// composite, and the effect waits until it is taken.
  func process(_ input: Engine<State, Event, Hosted.Output>.Input) {
    guard case .effectEvent(let event, let effect, let place, let reply) = input,
      let participant, isStarted, let name = EnumCases.name(of: event),
      let composites = participant.composites(of: name)
    else { return engine.process(input) }
    guard let version = engine.version(ofEffect: effect), let bytes = try? events.encode(event)
    else {
      return reply.resume(false)
    }
    guard composites.count == 1 else {
      reply.resume(false)
      let names = composites.map { "'\($0)'" }.joined(separator: " and ")
      onEnd?(
        "an effect gave '\(name)', which composites \(names) synchronize, and nobody can tell "
          + "through which it is to be taken; let a pipe send it to one of them")
      return
    }
    let ordinal = raisedCounts[effect, default: 0]
    if raisedCounts.count >= Self.raisedCountsKept {
      raisedCounts = raisedCounts.filter { engine.isRunning(effect: $0.key) }
    }
    raisedCounts[effect] = ordinal + 1
    participant.raise(
      RaisedEvent(
        effect: effect, place: place, reply: reply, number: version << 16 | ordinal & 0xFFFF,
        journal: engine.keyScope.journal,
        body: TransactionBody(composite: composites[0], event: bytes)))
  }

  func inDoubtChanged() { onEntry?(false) }

  func isRunning(effect: UInt64) -> Bool { engine.isRunning(effect: effect) }

  /// Counts of effects that have ended are thrown away when there are so many.
  private static var raisedCountsKept: Int { 16 }

  func taken(_ raised: RaisedEvent) {
    engine.takesTogether(of: raised.effect, raised.place, raised.reply)
  }
}

extension Engine {
  func isRunning(effect id: UInt64) -> Bool { running.index(forKey: id) != nil }

  /// The version of the step that started an effect; `nil` where that has ended.
  func version(ofEffect id: UInt64) -> UInt64? { running[id]?.origin.version }

  /// The event of an effect is taken together with other machines: what belongs to that beside the
  /// step. To be called before it, so that both are one record.
  func takesTogether(of id: UInt64, _ place: EffectEventPlace, _ reply: EffectReply) {
    let ending: EffectOrigin?
    switch place {
    case .last: ending = running.removeValue(forKey: id)?.origin
    case .oneOfMany:
      ending = nil
      if unrecorded != nil {
        running[id]?.progress = BootClock.now
        unrecorded?.started(id)
      }
    }
    guard unrecorded != nil else { return reply.resume(true) }
    if let ending { unrecorded?.ended(id, ending) }
    unrecorded?.append(reply)
  }

  /// Takes a step whose transition was evaluated before, in the same state.
  func take(_ event: Event?, leadingTo next: State, cause: String) {
    if hasEventMiddleware, let event { observe(event) }
    move(to: next, on: event) { onEntry?(state, version, cause) }
  }
}
