import PipeJournal
import PipeMachines
import PipeWire

/// Connects a machine to its ``Participant`` in synchronized events.
final class MachineParticipant<Hosted: Machine>: ParticipatingMachine {
  private let core: MachineCore<Hosted>
  private let outlets: MachineOutlets
  /// The participant's records in the journal. `nil` after they were passed to the participant.
  private var restored: JournalContents.Participant?
  /// The last transaction whose step an earlier process has recorded; `nil` if there is none.
  let lastRecordedTransaction: TransactionID?
  /// The prepared step: the event that the machine has promised to apply, the composite that
  /// received the event, and the next state.
  @exclusivity(unchecked)
  private var prepared:
    (event: Hosted.Event, composite: String, next: TransitionTarget<Hosted.State>)?
  /// Whether a transition runs, or has run, for an event whose transaction is not decided yet.
  @exclusivity(unchecked)
  private var isTentative = false
  /// The time limits in the machine's description, by the names of the events.
  private lazy var announcedLimits = core.engine.machine.timeLimitsByEvent
  /// The task that evaluates the transition of an event, with a number that identifies the
  /// evaluation.
  @exclusivity(unchecked)
  private var evaluation: (number: UInt64, task: Task<Void, Never>)?
  private var lastEvaluation: UInt64 = 0
  private var unreturnedTransitions = RunningTransitionLimit()
  /// Posts a closure to the loop.
  private let post: @Sendable (@escaping @Sendable () -> Void) -> Void
  /// Whether a coordinator has committed the step that the machine is taking.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private(set) var isCommitted = false
  /// The transaction of the step that the machine is taking; `nil` for other steps.
  @exclusivity(unchecked)
  private(set) var currentTransaction: TransactionID?
  /// Names the synchronized events that effects emit.
  private var emittedNumbers = EmittedEventNames()
  /// Publishes the current state again.
  var showState: () -> Void = {}
  /// The functions that the participant calls for each event.
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
    lastRecordedTransaction = restored?.lastApplied
  }

  /// Makes the participant call functions that are specialized for the machine's type. Must be
  /// called from specialized code.
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
      guard let prepared = restored?.preparedStep, prepared.move.version == core.engine.version + 1
      else { return }
      return core.log.warning(
        "the node is no longer part of a composite, but may have promised to take synchronized "
          + "event \(prepared.transaction)")
    }
    core.participation = participant
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
      // Without a time limit, a transition may have side effects. These would remain if another
      // participant refused the event.
      guard let limit = transition.limit else { throw refused(.asynchronous) }
      guard unreturnedTransitions.mayBegin(tell: core.engine.onError) else {
        throw refused(.timedOut)
      }
      evaluate(transition, on: event, of: body.composite)
      return .takesTime(
        limit: min(limit, announcedLimit(of: event)), version: core.engine.version,
        state: stateBytes)
    case .next(let next):
      return .moves(try move(on: event, of: body.composite, to: TransitionTarget(next)))
    case .stays(let next):
      let target = TransitionTarget(next, isInternal: true)
      return .moves(try move(on: event, of: body.composite, to: target))
    case .ignored:
      // The commit is recorded as a step of each participant. So even an ignored event increments
      // the version.
      let target = TransitionTarget(core.engine.state, isInternal: true)
      return .moves(try move(on: event, of: body.composite, to: target))
    }
  }

  /// Returns the time limit that the machine's description announces for the event. If the
  /// description announces no limit, returns one second, the limit for all other answers.
  private func announcedLimit(of event: Hosted.Event) -> Duration {
    EnumCases<Hosted.Event>.name(of: event).flatMap { announcedLimits[$0] } ?? .seconds(1)
  }

  /// Stores the step to the state `next` until the coordinator commits or aborts the step.
  private func move(
    on event: Hosted.Event, of composite: String, to next: TransitionTarget<Hosted.State>
  ) throws(ParticipantRefusal) -> ParticipantMove {
    guard let state = try? core.states.encode(next.state) else { throw .busy }
    guard state.count <= max(StateSizeLimit.maximumByteCount, stateBytes.count) else {
      throw refused(.stateTooLarge)
    }
    prepared = (event, composite, next)
    return ParticipantMove(
      version: core.engine.version + 1, state: state, isInternal: next.isInternal)
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
    currentTransaction = isCommitted ? step.transaction : nil
    defer { (self.isCommitted, currentTransaction) = (false, nil) }
    if let (event, composite, next) = prepared {
      prepared = nil
      core.engine.take(
        event, leadingTo: next.state, isInternal: next.isInternal, cause: composite)
      if isTentative { core.engine.scope.keep() }
      isTentative = false
      return
    }
    // There is no prepared step in memory, because an earlier process prepared the step.
    let body = TransactionBody(step.event)
    do {
      let next = try Hosted.decodeState(step.move.state, schema: step.schema, by: core.states)
      let event = try body.map {
        try Hosted.decodeEvent($0.event, schema: step.schema, by: core.events)
      }
      core.engine.take(
        event, leadingTo: next,
        isInternal: step.move.isInternal, cause: body?.composite ?? "synchronized")
      core.engine.scope.restartWork(in: next)
    } catch {
      core.onEnd?(
        "synchronized event \(step.transaction) is committed, but the node cannot apply the step: "
          + "\(error)"
      )
    }
  }
}

// Asynchronous transitions of synchronized events. They run before the coordinator knows whether
// all participants accept the event.
extension MachineParticipant {
  @export(interface)
  private func evaluate(
    _ transition: SuspendedTransition<Hosted.State>, on event: Hosted.Event, of composite: String
  ) {
    isTentative = true
    unreturnedTransitions.begin()
    lastEvaluation += 1
    let number = lastEvaluation
    let scope = core.engine.scope
    let owner = Weak(self)
    let post = post
    evaluation = (
      number,
      Task {
        do {
          let next = try await scope.run(isTentative: true, transition.target)
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
    // The machine refuses events with asynchronous transitions while too many earlier transitions
    // have not returned. It may accept such events again now.
    if unreturnedTransitions.returned() { core.participant?.reportReadyToEvaluate() }
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

  /// Discards the result of the evaluation. Cancels the task first, so that work which begins later
  /// is already cancelled.
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

/// The result of an asynchronous transition: the next state, or the reason for which the event is
/// refused.
private enum EvaluationResult<State: Sendable>: Sendable {
  case success(TransitionTarget<State>)
  case failure(Refusal)
}

// Events that effects emit.
extension MachineParticipant {
  /// Handles an input that a task of the engine has posted to the loop. If the input is a
  /// synchronized event from an effect, sends the event to its composite. The effect waits until
  /// the event is accepted.
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
    core.engine.effects.shouldProcess(emitted.index, of: emitted.effect)
  }

  func noteTaken(_ emitted: EmittedEvent) {
    core.engine.effects.takeJointly(from: emitted.effect, emitted.index, emitted.reply)
  }
}

/// The functions of a machine that its participant calls. The most frequent calls are in
/// ``ParticipatingSteps``.
protocol ParticipatingMachine: AnyObject {
  /// Publishes the state again for a coordinator that has just connected.
  func reportState()
  /// The version of the step that started the oldest running effect; `nil` if no effect is running.
  var oldestEffect: UInt64? { get }
  /// Whether an effect still waits for the acceptance of its emitted event.
  func wants(_ emitted: EmittedEvent) -> Bool
  /// Notes that an event emitted by an effect is about to be applied, or was applied.
  func noteTaken(_ emitted: EmittedEvent)
  /// Cancels the running transition, because the node stops.
  func cancelEvaluation()
  /// Notes that the node has become in doubt, or is no longer in doubt, although its state has not
  /// changed.
  func inDoubtChanged()
}

/// The functions of a machine that its participant calls for each synchronized event. The functions
/// are closures. The code that creates the closures knows the machine's type, so the compiler
/// specializes them.
struct ParticipatingSteps {
  /// Evaluates an event in the current state, without taking a step. If the transition is
  /// asynchronous, the machine calls ``Participant/evaluated(_:)`` later.
  let evaluate: ParticipantStateMachine.Evaluate
  /// Discards the last evaluation.
  let rollBack: () -> Void
  /// Takes the prepared step: enters the state. The state is recorded together with all
  /// consequences of the step.
  let enter: (PreparedStep, _ isCommitted: Bool) -> Void
}
