import PipeJournal
import PipeMachines
import PipeWire

/// The machine's side of synchronized events, which it takes together with other machines.
final class MachineParticipant<Hosted: Machine>: ParticipatingMachine {
  private let core: MachineCore<Hosted>
  private let outlets: MachineOutlets
  /// The participant's records in the journal, until the participant is attached.
  private var restored: JournalContents.Participant?
  /// The last transaction that an earlier process has recorded.
  let recorded: TransactionID?
  /// The event that the machine is prepared to take, the composite it came through, and the state
  /// it leads to.
  @exclusivity(unchecked)
  private var prepared: (event: Hosted.Event, composite: String, next: Hosted.State)?
  /// Whether a transition is running or has run for a step that is not taken yet.
  @exclusivity(unchecked)
  private var isTentative = false
  /// The time limits in the machine's description, by the names of the events.
  private lazy var announcedLimits = core.engine.machine.selfContainedEvents
  /// The task that evaluates an event's transition, and its number.
  @exclusivity(unchecked)
  private var evaluation: (number: UInt64, task: Task<Void, Never>)?
  private var lastEvaluation: UInt64 = 0
  private var unreturned = UnreturnedTransitions()
  /// Posts work to the loop.
  private let post: @Sendable (@escaping @Sendable () -> Void) -> Void
  /// Whether a coordinator has committed the current step.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private(set) var isCommitted = false
  /// The transaction of the current step, if the step is committed.
  @exclusivity(unchecked)
  private(set) var transaction: TransactionID?
  /// Names the synchronized events that effects emit.
  private var emittedNumbers = EmittedEventNames()
  /// Shows the current state again.
  var showState: () -> Void = {}
  /// The calls that the participant makes for each event.
  private var steps: ParticipatingSteps?

  @export(interface)
  init(
    _ core: MachineCore<Hosted>, _ outlets: MachineOutlets,
    post: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) {
    self.core = core
    self.outlets = outlets
    self.post = post
    restored = core.journal?.contents?.participant
    recorded = restored?.applied
  }

  /// Routes the frequent calls to code compiled for the machine's type. The caller must be such
  /// code itself.
  func specialize() { steps = makeSteps() }

  private func makeSteps() -> ParticipatingSteps {
    ParticipatingSteps(
      evaluate: { [unowned self] event throws(ParticipantRefusal) in try evaluate(event) },
      rollBack: { [unowned self] in rollBack() },
      enter: { [unowned self] in enter($0, isCommitted: $1) })
  }

  @export(interface)
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) {
    let restored = restored
    self.restored = nil
    guard let participant = configuration.participant else {
      guard let prepared = restored?.prepared, prepared.move.version == core.engine.version + 1
      else { return }
      return core.log.warning(
        "the node is no longer part of a composite, but may have promised to take synchronized "
          + "event \(prepared.transaction)")
    }
    core.join(
      Participant(
        participant, machine: self, steps: steps ?? makeSteps(), restored: restored,
        version: core.engine.version, services: services, log: core.log))
  }

  private func evaluate(_ bytes: [UInt8]) throws(ParticipantRefusal) -> ParticipantAnswer {
    guard core.engine.canTakeInput, !outlets.isFull else { throw .busy }
    guard let body = TransactionBody(bytes) else {
      core.log.warning("received a synchronized event without a composite's name or an event")
      throw refused(.noTransition)
    }
    let event: Hosted.Event
    do { event = try core.events.decode(body.event) } catch {
      core.log.warning("composite '\(body.composite)': a synchronized event was refused: \(error)")
      throw refused(.noTransition)
    }
    switch core.engine.machine.step(core.engine.state, event) {
    case .refused(let refusal): throw refused(refusal)
    case .suspended(let transition):
      // Without a limit, the transition may have side effects. They would remain if another
      // participant refused the event.
      guard let limit = transition.limit else { throw refused(.asynchronous) }
      guard unreturned.mayBegin(tell: core.engine.onError) else { throw refused(.timedOut) }
      evaluate(transition, on: event, of: body.composite)
      return .takesTime(
        limit: min(limit, announcedLimit(of: event)), version: core.engine.version,
        state: stateBytes)
    case .next(let next):
      return .moves(try move(on: event, of: body.composite, to: next))
    }
  }

  /// Returns the time limit that the coordinator knows for the event, or one second, the limit of
  /// any other answer.
  private func announcedLimit(of event: Hosted.Event) -> Duration {
    EnumCases<Hosted.Event>.name(of: event).flatMap { announcedLimits[$0] } ?? .seconds(1)
  }

  /// Keeps the step for the commit.
  private func move(
    on event: Hosted.Event, of composite: String, to next: Hosted.State
  ) throws(ParticipantRefusal) -> ParticipantMove {
    guard let state = try? core.states.encode(next) else { throw .busy }
    guard state.count <= max(StateSizeLimit.byteCount, stateBytes.count) else {
      throw refused(.stateTooLarge)
    }
    prepared = (event, composite, next)
    return ParticipantMove(version: core.engine.version + 1, state: state)
  }

  private var stateBytes: [UInt8] {
    (try? core.encode(core.engine.state, version: core.engine.version)) ?? Array("null".utf8)
  }

  private func refused(_ refusal: Refusal) -> ParticipantRefusal {
    .refused(refusal, version: core.engine.version, state: stateBytes)
  }

  func reportState() { showState() }

  private func enter(_ step: PreparedStep, isCommitted: Bool) {
    self.isCommitted = isCommitted
    transaction = isCommitted ? step.transaction : nil
    defer { (self.isCommitted, transaction) = (false, nil) }
    if let (event, composite, next) = prepared {
      prepared = nil
      core.engine.take(event, leadingTo: next, cause: composite)
      if isTentative { core.engine.scope.keep() }
      isTentative = false
      return
    }
    // An earlier process prepared the step.
    let body = TransactionBody(step.event)
    do {
      let next = try core.states.decode(step.move.state)
      core.engine.take(
        try body.map { try core.events.decode($0.event) }, leadingTo: next,
        cause: body?.composite ?? "synchronized")
      core.engine.scope.restartWork(in: next)
    } catch {
      core.onEnd?(
        "synchronized event \(step.transaction) is committed, but the node cannot apply the step: "
          + "\(error)"
      )
    }
  }
}

// Asynchronous transitions: they run before it is known whether all participants accept the event.
extension MachineParticipant {
  @export(interface)
  private func evaluate(
    _ transition: SuspendedTransition<Hosted.State>, on event: Hosted.Event, of composite: String
  ) {
    isTentative = true
    unreturned.begin()
    lastEvaluation += 1
    let number = lastEvaluation
    let scope = core.engine.scope
    let owner = Weak(self)
    let post = post
    evaluation = (
      number,
      Task {
        do {
          let next = try await scope.run(isTentative: true, transition.callAsFunction)
          post { owner.participant?.evaluated(number, event, composite, .success(next)) }
        } catch {
          let refusal = Refusal.thrown(by: error)
          post { owner.participant?.evaluated(number, event, composite, .failure(refusal)) }
        }
      }
    )
  }

  @export(interface)
  private func evaluated(
    _ number: UInt64, _ event: Hosted.Event, _ composite: String,
    _ result: EvaluationResult<Hosted.State>
  ) {
    // Events that were refused because too many transitions had not returned may have their turn
    // now.
    if unreturned.returned() { core.participant?.mayEvaluateAgain() }
    guard evaluation?.number == number else { return }
    evaluation = nil
    let answer: Result<ParticipantMove, ParticipantRefusal>
    switch result {
    case .success(let next):
      do throws(ParticipantRefusal) {
        answer = .success(try move(on: event, of: composite, to: next))
      } catch {
        answer = .failure(error)
      }
    case .failure(let refusal): answer = .failure(refused(refusal))
    }
    core.participant?.evaluated(answer)
  }

  /// Rolls the evaluation back. Cancels the task before it abandons the result: work that begins
  /// later sees the cancellation.
  private func rollBack() {
    cancelEvaluation()
    prepared = nil
    if isTentative { core.engine.scope.abandon() }
    isTentative = false
  }

  func cancelEvaluation() {
    evaluation?.task.cancel()
    evaluation = nil
  }

  // Only the loop's thread reads the reference.
  private final class Weak: @unchecked Sendable {
    weak var participant: MachineParticipant?
    init(_ participant: MachineParticipant) { self.participant = participant }
  }
}

/// The state that a transition led to, or the reason why it was refused.
private enum EvaluationResult<State: Sendable>: Sendable {
  case success(State)
  case failure(Refusal)
}

// Events that effects emit.
extension MachineParticipant {
  /// Handles an input that one of the engine's tasks has posted. A synchronized event goes to its
  /// composite, and the effect waits until the event is taken.
  func process(_ input: Engine<Hosted.State, Hosted.Event, Hosted.Output>.Input) {
    guard case .effectEvent(let event, let effect, let index, let reply) = input,
      let participant = core.participant, core.isStarted, let name = EnumCases.name(of: event),
      let composites = participant.composites(of: name)
    else { return core.engine.process(input) }
    guard !index.isWithdrawn, let origin = core.engine.effects.origin(of: effect),
      let bytes = try? core.events.encode(event)
    else {
      return reply.resume(false)
    }
    guard composites.count == 1 else {
      reply.resume(false)
      let names = composites.map { "'\($0)'" }.joined(separator: " and ")
      core.onEnd?(
        "an effect emitted '\(name)', but the composite is ambiguous: composites \(names) "
          + "synchronize the event; send the event to the intended composite through a pipe with "
          + "capacity 2 or more"
      )
      return
    }
    let eventName = emittedNumbers.next(
      of: effect, origin, index, journal: core.engine.effects.keyScope.journal,
      core.engine.effects.contains)
    participant.emit(
      EmittedEvent(
        effect: effect, index: index, reply: reply, name: eventName,
        body: TransactionBody(composite: composites[0], event: bytes)))
  }

  func inDoubtChanged() { showState() }

  var oldestEffect: UInt64? { core.engine.effects.oldestVersion }

  func wants(_ emitted: EmittedEvent) -> Bool {
    core.engine.effects.wants(emitted.index, of: emitted.effect)
  }

  func noteTaken(_ emitted: EmittedEvent) {
    core.engine.effects.takeJointly(from: emitted.effect, emitted.index, emitted.reply)
  }
}

/// The calls that a participant makes to its machine, except for the frequent
/// ``ParticipatingSteps``.
protocol ParticipatingMachine: AnyObject {
  /// Reports the state to a coordinator that has just connected.
  func reportState()
  /// The version of the step that started the oldest effect which has not ended.
  var oldestEffect: UInt64? { get }
  /// Whether an effect still waits for its emitted event to be taken.
  func wants(_ emitted: EmittedEvent) -> Bool
  /// Notes that an event emitted by an effect is about to be taken, or was taken.
  func noteTaken(_ emitted: EmittedEvent)
  /// Cancels the transition that runs, since the node stops.
  func cancelEvaluation()
  /// Notes that the node has entered or left the in-doubt condition, in the same state.
  func inDoubtChanged()
}

/// The calls for each synchronized event, made where the machine's type is known, so that they are
/// compiled for it.
struct ParticipatingSteps {
  /// Evaluates where an event would lead the machine now; nothing changes. If the transition
  /// takes time, the machine calls ``Participant/evaluated(_:)`` later.
  let evaluate: ParticipantStateMachine.Evaluate
  /// Rolls the machine back to where it was before the evaluation.
  let rollBack: () -> Void
  /// Takes the prepared step: enters the state, which is recorded with everything that follows.
  let enter: (PreparedStep, _ isCommitted: Bool) -> Void
}
