import PipeJournal
import PipeMachines
import PipeWire

/// A machine's part in events that it takes together with others.
final class MachineParticipant<Hosted: Machine>: ParticipatingMachine {
  private let core: MachineCore<Hosted>
  private let outlets: MachineOutlets
  /// What its journal has of it, until it is attached.
  private var restored: JournalContents.Participant?
  /// The event that it is prepared to take, and the state that it leads to.
  private var prepared: (event: Hosted.Event, next: Hosted.State)?
  /// Whether the step under way is one that the coordinator has committed.
  private(set) var isCommitted = false
  /// The transaction of that step.
  private(set) var transaction: TransactionID?
  /// How many synchronized events the effects that run have given.
  private var emittedCounts: [UInt64: UInt64] = [:]
  /// Shows the current state once more.
  var showState: () -> Void = {}
  /// What the participant calls for each event.
  private var steps: ParticipatingSteps?

  @export(interface)
  init(_ core: MachineCore<Hosted>, _ outlets: MachineOutlets) {
    self.core = core
    self.outlets = outlets
    restored = core.journal?.contents?.participant
  }

  /// Has the frequent calls go to code compiled for the machine, which the caller is.
  func specialize() { steps = makeSteps() }

  private func makeSteps() -> ParticipatingSteps {
    ParticipatingSteps(
      evaluate: { [unowned self] event throws(ParticipantRefusal) in try evaluate(event) },
      enter: { [unowned self] in enter($0, isCommitted: $1) })
  }

  @export(interface)
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) {
    let restored = restored
    self.restored = nil
    guard let part = configuration.participant else {
      guard let prepared = restored?.prepared, prepared.move.version == core.engine.version + 1
      else { return }
      return core.log.warning(
        "the node may have promised to take part in synchronized event \(prepared.transaction), "
          + "and is in no composite any more")
    }
    core.join(
      Participant(
        part, machine: self, steps: steps ?? makeSteps(), restored: restored,
        version: core.engine.version, services: services, log: core.log))
  }

  private func evaluate(_ bytes: [UInt8]) throws(ParticipantRefusal) -> ParticipantMove {
    guard core.engine.canTakeInput, !outlets.isFull else { throw .busy }
    guard let body = TransactionBody(bytes) else {
      core.log.warning("a synchronized event came without a composite's name or an event")
      throw refused(.noTransition)
    }
    let event: Hosted.Event
    do { event = try core.events.decode(body.event) } catch {
      core.log.warning("composite '\(body.composite)': a synchronized event was refused: \(error)")
      throw refused(.noTransition)
    }
    switch core.engine.machine.step(core.engine.state, event) {
    case .refused(let refusal): throw refused(refusal)
    // Nobody can say beforehand where it leads.
    case .suspended: throw refused(.asynchronous)
    case .next(let next):
      guard let state = try? core.states.encode(next) else { throw .busy }
      prepared = (event, next)
      return ParticipantMove(version: core.engine.version + 1, state: state)
    }
  }

  private func refused(_ refusal: Refusal) -> ParticipantRefusal {
    let state = (try? core.states.encode(core.engine.state)) ?? Array("null".utf8)
    return .refused(refusal, version: core.engine.version, state: state)
  }

  func tellState() { showState() }

  private func enter(_ step: PreparedStep, isCommitted: Bool) {
    self.isCommitted = isCommitted
    transaction = isCommitted ? step.transaction : nil
    defer { (self.isCommitted, transaction) = (false, nil) }
    let body = TransactionBody(step.event)
    let cause = body?.composite ?? "synchronized"
    if let (event, next) = prepared {
      prepared = nil
      core.engine.take(event, leadingTo: next, cause: cause)
      return
    }
    // Prepared by an earlier process.
    do {
      let next = try core.states.decode(step.move.state)
      core.engine.take(
        try body.map { try core.events.decode($0.event) }, leadingTo: next, cause: cause)
    } catch {
      core.onEnd?(
        "synchronized event \(step.transaction) is committed, and its step cannot be taken: \(error)"
      )
    }
  }
}

// Events that effects give.
extension MachineParticipant {
  /// Handles what one of the engine's tasks has posted. An event that is synchronized goes to its
  /// composite, and the effect waits until it is taken.
  func process(_ input: Engine<Hosted.State, Hosted.Event, Hosted.Output>.Input) {
    guard case .effectEvent(let event, let effect, let place, let reply) = input,
      let participant = core.participant, core.isStarted, let name = EnumCases.name(of: event),
      let composites = participant.composites(of: name)
    else { return core.engine.process(input) }
    guard let version = core.engine.effects.version(of: effect),
      let bytes = try? core.events.encode(event)
    else {
      return reply.resume(false)
    }
    guard composites.count == 1 else {
      reply.resume(false)
      let names = composites.map { "'\($0)'" }.joined(separator: " and ")
      core.onEnd?(
        "an effect gave '\(name)', which composites \(names) synchronize, and nobody can tell "
          + "through which it is to be taken; let a pipe send it to one of them")
      return
    }
    let ordinal = emittedCounts[effect, default: 0]
    if emittedCounts.count >= Self.emittedCountsKept {
      emittedCounts = emittedCounts.filter { core.engine.effects.contains($0.key) }
    }
    emittedCounts[effect] = ordinal + 1
    participant.emit(
      EmittedEvent(
        effect: effect, place: place, reply: reply, number: version << 16 | ordinal & 0xFFFF,
        journal: core.engine.effects.keyScope.journal,
        body: TransactionBody(composite: composites[0], event: bytes)))
  }

  func inDoubtChanged() { showState() }

  func isRunning(effect: UInt64) -> Bool { core.engine.effects.contains(effect) }

  /// Counts of effects that have ended are thrown away when there are so many.
  private static var emittedCountsKept: Int { 16 }

  func taken(_ emitted: EmittedEvent) {
    core.engine.effects.takesTogether(from: emitted.effect, emitted.place, emitted.reply)
  }
}
