import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The content of a node that hosts one machine. Processes the inputs in the order of
/// ``MachineInbox``, and delegates the work to its parts: requests, pipes, steps, synchronized
/// events and traces.
final class MachineContent<Hosted: Machine>: PipedContent, SteppingContent, RequestableContent,
  JournaledContent,
  DeadLetteringContent, ExplainableContent, ParticipatingContent, TraceableContent,
  SelfEndingContent, GateableContent
{
  let description: MachineDescription
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  var onEntry: ((_ isCommitted: Bool) -> Void)?
  private let ports = Ports()
  private let core: MachineCore<Hosted>
  private let outlets: MachineOutlets
  private let steps: MachineSteps<Hosted>
  private let requests: MachineRequests<Hosted>
  private let pipes: MachinePipes<Hosted>
  private let machineParticipant: MachineParticipant<Hosted>
  private let trace: MachineTrace<Hosted>
  private let refusals: MachineRefusals<Hosted>
  @exclusivity(unchecked)
  private var hasStarted = false
  /// The gate that takes the steps; `nil` if the node is not gated.
  @exclusivity(unchecked)
  private var gate: MachineGate<Hosted>?

  /// The maximum number of steps before the loop polls its sockets again. Unit: steps.
  private static var stepsPerTurn: Int { 512 }

  /// Creates the machine and its engine. If the journal contains a state, the machine resumes in
  /// that state. Tasks of the engine post their results to the loop.
  @export(interface)
  init(parameters: Hosted.Parameters, hosting: HostingContext) throws {
    let meter = StateMeter<Hosted.State>(
      isSynthesized: Hosted.State._isSynthesizedCodable,
      isExact: hosting.journal?.marker.measuresEachStep == true)
    let machine = Hosted.stateMachine(parameters).refusing(by: meter)
    let runtime = Hosted.runtime(parameters, ports)
    description = try Hosted.describe(machine: machine, runtime: runtime, ports: ports)
    if hosting.journal?.contents == nil,
      let problem = machine.problem(withInitial: description.initial)
    {
      throw NodeSetupError(problem)
    }
    let owner = Weak()
    let loop = hosting.loop
    let engine = Engine(machine: machine, runtime: runtime) { input in
      loop.post { owner.content?.process(input) }
    }
    let journal = hosting.journal
    try journal?.store(instanceField: nil)
    engine.effects.keyScope = IdempotencyKey.Scope(
      node: "\(hosting.topology)/\(hosting.node)",
      journal: journal?.stream ?? UInt64.random(in: 1...UInt64(Int64.max)))
    engine.onError = { [log = hosting.log] in log.warning($0) }
    engine.onFailure = { owner.content?.core.onEnd?($0) }
    if journal != nil { engine.effects.deferUntilRecorded() }
    try journal?.store(stateFields: description.stateFields?.map(\.name))
    engine.canShow = { [log = hosting.log] state in
      if meter.fits(state) { return true }
      log.warning(
        "an intermediate state of a transition is not shown: \(Refusal.stateTooLarge.wording)")
      return false
    }
    core = try MachineCore(engine, meter, hosting: hosting)
    outlets = MachineOutlets(log: hosting.log)
    steps = try MachineSteps(core, incarnation: hosting.incarnation)
    requests = MachineRequests(core, outlets)
    pipes = MachinePipes(core)
    machineParticipant = MachineParticipant(core, outlets) { loop.post($0) }
    trace = MachineTrace(core, steps, requests, pipes, machineParticipant, outlets)
    refusals = MachineRefusals(core, steps)
    owner.content = self
    if let journal { CrashWatch.begin(journal.marker) }
    machineParticipant.showState = { [unowned self] in onEntry?(false) }
    if journal?.contents != nil { Failpoint.hit(.restoreAfter) }
  }

  // Set once. After that, only the loop's thread uses the reference.
  private final class Weak: @unchecked Sendable {
    weak var content: MachineContent<Hosted>?
  }

  /// Connects the engine and the participant to this content, and returns the content for the node.
  ///
  /// The compiler specializes the caller of this function, and so also the closures that this
  /// function creates, for the machine's type. Calls through a protocol would run generic code that
  /// all machines share.
  func hosted() -> HostedContent {
    // `unowned(unsafe)` is safe, because the content owns the engine, and the engine makes no calls
    // after the content is released.
    core.engine.onEntry = { [unowned(unsafe) self] state, _, cause in entered(state, cause: cause) }
    core.engine.onInternalTransition = { [unowned(unsafe) self] state, _, cause in
      stayed(in: state, cause: cause)
    }
    core.engine.onIntermediateState = { [unowned self] _, _, cause in
      enteredIntermediateState(because: cause)
    }
    core.engine.trace.didTakeStep = { [unowned trace] in trace.didTakeStep() }
    machineParticipant.specialize()
    return HostedContent(
      self,
      StepCallbacks(
        accept: { events, pipe throws(FrameError) in try self.accept(events, from: pipe) },
        takeTurn: { self.takeTurn() }, hasWork: { self.hasWork }, lastStep: { self.lastStep() },
        hasUnrecordedChanges: { self.hasUnrecordedChanges }, record: { try self.record(into: $0) },
        didRecord: { self.didRecord() }))
  }

  var onEnd: ((String?) -> Void)? {
    get { core.onEnd }
    set { core.onEnd = newValue }
  }

  var nodeParticipant: (any NodeParticipant)? { core.participant }

  // MARK: Connections to pipes and services

  @export(interface)
  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    pipes.connect(ins)
    try outlets.connect(outs, ports, of: description)
    observeStates()
    guard let contents = core.journal?.contents else { return }
    pipes.restore(contents.inPipeProgressByPipe)
    for (name, sent) in contents.outPipeProgressByPipe
    where !sent.events.isEmpty && !outlets.hasDurablePipe(name) {
      core.log.warning(
        "pipe '\(name)' no longer starts at this node; \(sent.events.count) undelivered events "
          + "stay in the journal")
    }
    core.journal?.forgetContents()
  }

  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    try outlets.connect(outs, ports, of: description)
    observeStates()
  }

  /// Makes the engine send the events of pipes with `when`, and report the step, for each
  /// intermediate state as well. Also makes the engine wait while such a pipe or a pipe for step
  /// reports is full. Does nothing if there are no such pipes.
  private func observeStates() {
    guard core.engine.onIntermediateStateSettled == nil, outlets.hasRules || outlets.reportsSteps
    else { return }
    let previousMustWait = core.engine.mustWait
    core.engine.mustWait = { [outlets] in outlets.isRulePipeFull || previousMustWait?() == true }
    core.engine.onIntermediateStateSettled = { [unowned self] in
      fireRules(of: $0, version: nil)
      if outlets.reportsSteps { reportStep(.step, $0, version: nil, nil) }
    }
  }

  func attach(to services: NodeServices, _ configuration: NodeConfiguration) {
    machineParticipant.attach(to: services, configuration)
    if configuration.isGated == true {
      gate = MachineGate(core, pipes, requests, machineParticipant, outlets)
      return
    }
    guard let timers = core.engine.timers else { return }
    let alarm = LoopAlarm(services.loop)
    timers.useAlarm { [weak self] delay, number in
      alarm.set(delay) { self?.process(.timerDue(number)) }
    }
  }

  // MARK: Processing inputs

  @export(interface)
  func start() {
    core.begin()
    hasStarted = true
    if steps.start() {
      onEntry?(false)
      if outlets.reportsSteps {
        reportStep(
          .none, core.engine.state, version: core.engine.version,
          machineParticipant.lastRecordedTransaction)
      }
    }
    core.participant?.started()
  }

  @export(interface)
  func stop() {
    core.end()
    core.participant?.stop()
    core.engine.stop()
    requests.stop()
  }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    try pipes.accept(events, from: pipe)
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply
  ) {
    guard gate == nil else { return reply(.invalid(MachineGate<Hosted>.rejection)) }
    requests.request(body, key: key, oldest: oldest, wantsState: wantsState, reply: reply)
  }

  func resolveDeadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard gate == nil else { return reply(.invalid(MachineGate<Hosted>.rejection)) }
    requests.resolveDeadLetter(id, drops: drops, reply: reply)
  }

  @export(interface)
  func gate(_ request: GateRequest, reply: @escaping Reply) {
    guard let gate else { return reply(.invalid("the node is not gated")) }
    gate.take(request, reply: reply)
  }

  @export(interface)
  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply) {
    guard key == nil else { return reply(.invalid("the node has no instances")) }
    do {
      let explanation = try MachineExplanation(core: core, outlets: outlets).explain(body)
      // The answer contains the current state, which may not be recorded yet.
      requests.answerWhenRecorded(.explained(by: explanation), to: reply)
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  var hasWork: Bool {
    guard core.isStarted, core.engine.canTakeInput, gate == nil else { return false }
    return !core.inbox.isEmpty || core.engine.hasQueuedInput
  }

  /// Processes an input that a task of the engine has posted.
  private func process(_ input: Engine<Hosted.State, Hosted.Event, Hosted.Output>.Input) {
    switch input {
    case .effectEvent, .timerDue: break
    case .effectEnded, .intermediateState, .transitionEnded, .transitionThrew, .wake:
      return machineParticipant.process(input)
    }
    let (start, version) = (BootClock.nanoseconds, core.engine.version)
    machineParticipant.process(input)
    if core.engine.version != version { steps.addDuration(since: start) }
  }

  func takeTurn() {
    guard core.isStarted else { return }
    if let gate { return gate.takeTurn() }
    // Only the first event of a turn is measured: reading the clock for each event has a measurable
    // cost.
    let start = core.inbox.isEmpty ? nil : BootClock.nanoseconds
    var budget = Self.stepsPerTurn
    while budget > 0, core.isStarted, core.engine.canTakeInput, let input = core.inbox.next() {
      budget -= 1
      switch input {
      case .request(let request): requests.process(request)
      case .event(let event, let pipe): pipes.process(event, of: pipe)
      }
      if let start, budget == Self.stepsPerTurn - 1 { steps.addDuration(since: start) }
    }
    // Inputs that wait in the engine come last: they have waited for capacity in a pipe, or for the
    // end of a synchronized event.
    if core.engine.hasQueuedInput, core.engine.canTakeInput { core.engine.process(.wake) }
  }

  // MARK: States and step reports

  private func entered(_ state: Hosted.State, cause: String) {
    steps.entered(because: cause)
    core.inbox.retryPostponed()
    if outlets.hasRules { fireRules(of: state, version: core.engine.version) }
    if outlets.reportsSteps {
      reportStep(
        core.engine.version == 0 ? .first : .step, state, version: core.engine.version,
        machineParticipant.currentTransaction)
    }
    onEntry?(machineParticipant.isCommitted)
  }

  /// Handles an internal transition. No rule fires, because the step does not enter a state.
  private func stayed(in state: Hosted.State, cause: String) {
    steps.entered(because: cause)
    // Tries the postponed events again, because a guard may accept them with the new values of the
    // state.
    core.inbox.retryPostponed()
    if outlets.reportsSteps {
      reportStep(
        .internal, state, version: core.engine.version, machineParticipant.currentTransaction)
    }
    onEntry?(machineParticipant.isCommitted)
  }

  /// Reports a step to the coordinators whose composites have outbound pipes.
  private func reportStep(
    _ entry: StepReport.Entry, _ state: Hosted.State, version: UInt64?,
    _ transaction: TransactionID?
  ) {
    outlets.reportStep(entry, Result { try encode(state, version: version) }, transaction)
  }

  private func fireRules(of state: Hosted.State, version: UInt64?) {
    guard let tag = EnumCases<Hosted.State>.tag(of: state) else { return }
    outlets.fire(tag) { (try? encode(state, version: version)) ?? [] }
  }

  /// Returns a state as JSON.
  /// - Parameter version: The version of the state; `nil` for an intermediate state of a completed
  ///   step.
  private func encode(_ state: Hosted.State, version: UInt64?) throws -> [UInt8] {
    guard let version else { return try core.states.encode(state) }
    return try core.encode(state, version: version)
  }

  /// Publishes an intermediate state of a transition at once. The journal records only the whole
  /// step.
  private func enteredIntermediateState(because cause: String) {
    steps.enteredIntermediateState(because: cause)
    onEntry?(false)
  }

  func lastStep() -> PublishedState? {
    guard hasStarted, let state = try? core.encode(core.engine.state, version: core.engine.version)
    else { return nil }
    return PublishedState(
      version: core.engine.version, time: steps.publishedStep.time,
      cause: steps.publishedStep.cause, state: state,
      inDoubtTransaction: core.participant?.inDoubt(of: core.node),
      isIntermediate: core.engine.isIntermediate)
  }

  @export(interface)
  func fill(_ status: inout NodeStatus) {
    if core.isStarted { (status.state, status.since) = (core.stateJSON, steps.publishedStep.time) }
    status.version = core.engine.version
    status.doubt = core.participant?.inDoubt(of: core.node)
    status.refused = core.engine.refusals + pipes.undecodableCount
    let ignored = core.engine.ignoredEvents
    status.ignored = ignored > 0 ? ignored : nil
    status.events = steps.stepCount + status.refused + ignored
    core.deadLetters.fill(&status)
    status.effects = core.engine.runningEffectCount
    if core.isStarted { status.timer = core.runningTimer(findsTarget: false) }
    status.unconnected = outlets.discardedCount
    status.ins = pipes.pipeStatuses
    status.synchronization = core.participant?.messages
    status.steps = steps.stepDurations.count > 0 ? steps.stepDurations : nil
  }

  // MARK: Reports to subscribers

  func count(_ counts: Bool) { trace.setCounting(counts) }
  var transitions: TransitionCounts? { trace.transitions }
  func reportSteps(to feed: Feed?) { trace.reportSteps(to: feed) }
  func reportRefusals(to feed: Feed?) { refusals.report(to: feed) }

  func logSteps(in log: StepLog) -> Bool {
    trace.logSteps(in: log)
    refusals.logRefusals(in: trace.stepLog)
    return true
  }

  // MARK: Recording the turn

  var hasUnrecordedChanges: Bool {
    core.isStarted
      && (steps.hasUnrecordedChanges || pipes.hasUnrecordedChanges
        || core.deadLetters.hasUnrecordedChanges
        || requests.hasUnrecordedChanges || core.participant?.hasUnrecordedChanges == true)
  }

  var hasObsoleteRecords: Bool { core.participant?.hasAborted == true }

  func record(into journal: Journal) throws {
    try steps.recordState(into: journal)
    try pipes.record(into: journal)
    try core.deadLetters.record(into: journal)
    try requests.record(into: journal)
    try core.participant?.record(into: journal)
    try steps.recordEffects(into: journal)
    try steps.recordTimers(into: journal)
  }

  func didRecord() {
    steps.stateRecorded()
    pipes.didRecord()
    if core.deadLetters.hasUnrecordedChanges {
      core.deadLetters.recorded()
      Failpoint.hit(.deadLetterAfter)
    }
    requests.didRecord()
    if core.engine.effects.hasUnrecordedChanges {
      core.engine.effects.didRecord(
        willStart: { Failpoint.hit(.effectBefore) }, willAnswer: { Failpoint.hit(.effectAfter) })
    }
    core.participant?.didRecord(version: core.engine.version)
  }
}

/// The reason why a node's content cannot run with its configuration.
struct NodeSetupError: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
