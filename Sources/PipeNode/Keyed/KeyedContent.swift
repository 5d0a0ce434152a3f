import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The content of a node with a `key`: one instance of the machine for each value of the key.
///
/// The events of all instances share the node's inbox, pipes, requests and dead letters. An event
/// goes to the instance whose key it carries. One record contains the instances that changed in a
/// turn, the numbers of the consumed events, and the outbox.
final class KeyedContent<Hosted: Machine>: PipedContent, SteppingContent, RequestableContent,
  JournaledContent, DeadLetteringContent, ExplainableContent, SelfEndingContent,
  InstancePublishingContent, ParticipatingContent, TraceableContent
{
  let description: MachineDescription
  @exclusivity(unchecked)
  var onEntry: ((_ isCommitted: Bool) -> Void)?
  private let ports = Ports()
  private let core: MachineCore<Hosted>
  private let outlets: MachineOutlets
  private let requests: MachineRequests<Hosted>
  private let pipes: MachinePipes<Hosted>
  private let table: InstanceTable<Hosted>
  private let engines: InstanceEngines<Hosted>
  private let keys: InstanceKeys<Hosted>
  private let timers = InstanceTimers()
  let timerSteps: InstanceTimerSteps<Hosted>
  private let locks: InstanceLocks<Hosted>
  let trace: KeyedTrace<Hosted>
  private let scope: (node: String, stream: UInt64)
  /// The name of the node, which begins the names of its instances. It is the same in all shards.
  private let nodeName: String
  @exclusivity(unchecked)
  private var feed: Feed?
  private var hasStarted = false
  /// The durations of the steps that are measured.
  @exclusivity(unchecked)
  private var stepDurations = DurationCounts()

  /// The maximum number of steps before the loop polls its sockets again. Unit: steps.
  private static var stepsPerTurn: Int { 512 }

  @export(interface)
  init(
    parameters: Hosted.Parameters, _ instances: NodeArguments.Instances, hosting: HostingContext
  ) throws {
    let journal = hosting.journal
    try journal?.store(instanceField: instances.key)
    try journal?.store(shard: instances.shard)
    let keyed = try KeyedMachine<Hosted>(parameters, instances, ports, hosting: hosting)
    description = keyed.description
    let engines = InstanceEngines<Hosted>(
      keyed.shared, own: keyed.instanceParts, loop: hosting.loop, log: hosting.log,
      isRecorded: journal != nil)
    self.engines = engines
    core = try MachineCore(engines.idle, keyed.meter, hosting: hosting)
    keys = InstanceKeys(instances, node: hosting.node, core, engines)
    nodeName = keys.nodeName
    outlets = MachineOutlets(log: hosting.log)
    table = try InstanceTable(
      journal, node: hosting.node, incarnation: hosting.incarnation, log: hosting.log,
      limit: instances.maximumInMemory,
      endings: InstanceEndings(keyed.finalTags, keptFor: instances.retention),
      states: core.states)
    core.instanceTimers = timers
    requests = MachineRequests(core, outlets)
    pipes = MachinePipes(core)
    locks = InstanceLocks(core, outlets, table, engines, keys)
    timerSteps = InstanceTimerSteps(core, table, engines, timers)
    trace = KeyedTrace(core, table, requests, pipes, outlets, locks, nodeName: nodeName)
    scope = (
      "\(hosting.topology)/\(nodeName)",
      journal?.stream ?? UInt64.random(in: 1...UInt64(Int64.max))
    )
    if let journal { CrashWatch.begin(journal.marker) }
    try journal?.store(stateFields: nil)
    if journal?.contents != nil { Failpoint.hit(.restoreAfter) }
    engines.owner.content = self
    engines.owner.caller = self
  }

  /// Returns the content for the node, with its frequent calls compiled for the machine's type; see
  /// ``StepCallbacks``.
  func hosted() -> HostedContent {
    HostedContent(
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

  // MARK: Connections to pipes and services

  @export(interface)
  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    pipes.connect(ins)
    keys.connect(pipeCount: ins.count)
    try outlets.connect(outs, ports, of: description)
    observePipes()
    guard let contents = core.journal?.contents else { return }
    for (name, consumed) in contents.inPipeProgressByPipe {
      guard let pipe = ins.first(where: { $0.name == name && $0.state.isDurable }) else { continue }
      for (_, _, bytes, schema) in consumed.postponedEvents {
        bytes.withUnsafeBytes { keys.append($0, schema: schema, of: pipe.index) }
      }
    }
    pipes.restore(contents.inPipeProgressByPipe)
    for (name, sent) in contents.outPipeProgressByPipe
    where !sent.events.isEmpty && !outlets.hasDurablePipe(name) {
      core.log.warning(
        "pipe '\(name)' no longer starts at this node; \(sent.events.count) undelivered events "
          + "stay in the journal")
    }
  }

  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    try outlets.connect(outs, ports, of: description)
    observePipes()
  }

  /// Makes all engines wait while a pipe into which a rule sends events is full.
  private func observePipes() {
    engines.mustWait = outlets.hasRules ? { [outlets] in outlets.isRulePipeFull } : nil
  }

  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {
    try locks.attach(to: services, configuration)
    timers.useAlarm(LoopAlarm(services.loop))
  }

  var nodeParticipant: (any NodeParticipant)? { locks.participant }

  // MARK: Processing inputs

  @export(interface)
  func start() {
    core.begin()
    hasStarted = true
    do {
      try resumeEffects()
      try timerSteps.resume()
    } catch { core.onEnd?("\(error)") }
    let isFirst = core.journal?.contents == nil
    core.journal?.forgetContents()
    if isFirst { Failpoint.hit(.startAfter) }
    onEntry?(false)
    locks.participant?.started()
  }

  /// Resumes the effects that had not ended when the last process ended.
  private func resumeEffects() throws {
    guard let journal = core.journal, journal.contents != nil else { return }
    let parked = try journal.deadLetteredEffects()
    for (key, effect, stream) in try journal.instanceEffects() {
      guard let instance = try table.find(key) else { continue }
      let (origin, state) = (effect.origin, try table.state(effect.state, effect.schema, of: key))
      let poison = core.poisonEffect.flatMap { $0.origin == origin ? $0 : nil }
      begin(instance)
      if let stream { instance.engine?.engine.effects.keyScope = keyScope(of: key, stream) }
      if !core.engine.resumeEffect(
        of: state, origin, elapsed: effect.elapsedTime,
        isParked: poison != nil || parked.contains(origin))
      {
        core.log.warning(
          "cannot resume the effect of step \(origin.version) of instance '\(key)': the machine no "
            + "longer has this effect")
      } else if let poison {
        core.park(poison, of: state, in: key)
      }
      end(instance)
    }
    core.log.note("restored \(table.count) instances at version \(table.version)")
  }

  @export(interface)
  func stop() {
    core.end()
    for case .deadLetter(_, _, let reply) in locks.stop() {
      reply(.unavailable("the node is stopping"))
    }
    engines.stop()
    requests.stop()
  }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    try events.forEach { bytes, _ in
      keys.append(bytes, schema: events.schemaVersion, of: pipe.index)
    }
    try pipes.accept(events, from: pipe)
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply
  ) {
    withoutInstance {
      requests.request(body, key: key, oldest: oldest, wantsState: wantsState, reply: reply)
    }
  }

  func resolveDeadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard let found = core.deadLetters[id],
      let effect = EffectOrigin(ofDeadLetterFrom: found.pipe, found.sequence), effect.instance != 0,
      let hosted = engines.engine(ofInstance: effect.instance), let instance = hosted.instance
    else { return requests.resolveDeadLetter(id, drops: drops, reply: reply) }
    let current = core.engine
    core.engine = hosted.engine
    requests.resolveDeadLetter(id, drops: drops, reply: reply)
    end(instance)
    core.engine = current
  }

  @export(interface)
  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply) {
    do {
      let key = try keys.key(key, or: body)
      let known = try table.find(key)
      let instance = known ?? engines.makeInstance(key)
      let current = core.engine
      begin(instance)
      defer {
        end(instance)
        core.engine = current
        core.journal?.endLookups()
      }
      var explanation = try MachineExplanation(core: core, outlets: outlets).explain(body)
      explanation.isNew = known == nil
      if let (prepared, isInDoubt) = locks.participant?.transaction(of: key, in: nodeName) {
        explanation.hold = isInDoubt ? .doubt(prepared) : .transaction(prepared)
      }
      if let timer = timers[key],
        let next = try core.engine.machine.timers(in: core.engine.state).first
      {
        explanation.timer = core.timer(next, due: timer.dueTime, findsTarget: true)
      }
      explanation.time = instance.time
      explanation.cause = instance.cause
      requests.answerWhenRecorded(.explained(by: explanation), to: reply)
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  func publishInstances(to feed: Feed) { self.feed = feed }

  var hasWork: Bool {
    guard core.isStarted else { return false }
    if engines.hasReadyInput { return true }
    return core.engine.canTakeInput
      && (!core.inbox.isEmpty || timers.hasDue || locks.hasReadyInput)
  }

  func takeTurn() {
    guard core.isStarted else { return }
    var budget = Self.stepsPerTurn
    defer { core.journal?.endLookups() }
    // Timers come first, so that no timer fires before the entry into its state is recorded.
    // Otherwise, a timer that ends the process would also undo the entry, and the crash would not
    // be counted.
    if timers.first != nil { timerSteps.fireDue(&budget) }
    var start = core.inbox.isEmpty ? nil : BootClock.nanoseconds
    while budget > 0, core.isStarted, core.engine.canTakeInput, let (input, key) = locks.next() {
      budget -= 1
      if case .event(_, let pipe) = input { pipes.release(pipe) }
      take(input, of: .success(key))
    }
    while budget > 0, core.isStarted, core.engine.canTakeInput, let input = core.inbox.next() {
      budget -= 1
      take(input)
      if let began = start {
        stepDurations.add(nanoseconds: BootClock.nanoseconds - began)
        start = nil
      }
    }
    engines.wake { process(.wake, in: $0) }
  }

  /// Ends the node because an instance cannot continue.
  func fail(_ reason: String, in hosted: InstanceEngine<Hosted>) {
    core.onEnd?((hosted.instance.map { "instance '\($0.key)': " } ?? "") + reason)
  }

  private typealias Input = InstanceLocks<Hosted>.Input

  private func take(_ input: Input) {
    let key: Result<InstanceKey, InstanceKeyError>
    switch input {
    case .request(.event(let event, _, _)), .request(.deadLetter(_, let event, _)):
      key = keys.key(of: event)
    case .event(let event, let pipe):
      let arrived = keys.popFirst(of: pipe)
      guard case .event(let content) = event.content else {
        return withoutInstance { pipes.process(event, of: pipe) }
      }
      key = arrived ?? keys.key(of: content)
    }
    if case .success(let key) = key, locks.mustWait(key) { return wait(input, for: key) }
    take(input, of: key)
  }

  /// Lets an input wait until its instance is unlocked.
  private func wait(_ input: Input, for key: InstanceKey) {
    switch input {
    case .event(let event, let pipe):
      guard let event = pipes.hold(event, of: pipe) else { return }
      _ = locks.wait(.event(event, pipe: pipe), for: key)
    case .request(let request):
      guard !locks.wait(input, for: key) else { return }
      let reason =
        "too many events wait for instance '\(key)', which takes part in a synchronized event"
      switch request {
      case .event(_, let id, _): requests.answer(id, .busy(reason))
      case .deadLetter(_, _, let reply): reply(.busy(reason))
      }
    }
  }

  private func take(_ input: Input, of key: Result<InstanceKey, InstanceKeyError>) {
    switch input {
    case .request(.event(let event, let id, let wantsState)):
      take(event, of: key, { requests.process(.event(event, id, wantsState: wantsState)) }) {
        requests.reject(id, because: $0)
      }
    case .request(.deadLetter(let id, let event, let reply)):
      take(event, of: key, { requests.process(.deadLetter(id, event, reply: reply)) }) {
        reply(.invalid($0))
      }
    case .event(let event, let pipe):
      guard case .event(let content) = event.content else { return }
      take(content, of: key, { pipes.process(event, of: pipe) }) { reason in
        withoutInstance { pipes.reject(event, of: pipe, because: reason) }
      }
    }
  }

  /// Passes an event to the instance with the event's key. If there is no such instance, the event
  /// creates the instance, provided that the event is a step of the initial state.
  /// - Parameter reject: Called with the reason if the node does not accept the key.
  private func take(
    _ event: Hosted.Event, of key: Result<InstanceKey, InstanceKeyError>, _ body: () -> Void,
    reject: (String) -> Void
  ) {
    guard case .success(let key) = key else {
      if case .failure(let error) = key { reject("\(error)") }
      return
    }
    if let problem = keys.ownershipProblem(of: key) { return reject(problem) }
    do {
      if let instance = try table.find(key) {
        begin(instance)
        body()
        return end(instance)
      }
    } catch {
      core.onEnd?("\(error)")
      return
    }
    if let problem = keys.problem(withParameter: key) { return reject(problem) }
    let instance = engines.makeInstance(key)
    begin(instance)
    // An event that the initial state refuses or ignores does not create an instance.
    if core.reasonToRefuse(unsynchronized: event) == nil, engines.isStep(event, of: key) {
      create(instance)
    }
    body()
    end(instance)
  }

  /// Takes the committed step of a synchronized event. The first event for a key creates the
  /// instance.
  func take(
    _ event: Hosted.Event?, of instance: Instance<Hosted>,
    leadingTo next: TransitionTarget<Hosted.State>, cause: String
  ) {
    let current = core.engine
    begin(instance)
    let taking = core.engine
    if instance.id == 0 { create(instance) }
    taking.take(event, leadingTo: next.state, isInternal: next.isInternal, cause: cause)
    end(instance)
    core.engine = current === taking ? engines.idle : current
  }

  /// Adds an instance, which enters its initial state.
  /// - Precondition: The instance has an engine.
  private func create(_ instance: Instance<Hosted>) {
    table.add(instance)
    core.engine.effects.instance = instance.id
    core.engine.enterInitialState()
  }

  private func withoutInstance(_ body: () -> Void) {
    core.hasState = false
    defer { core.hasState = true }
    body()
  }

  /// Processes an input that a task of an instance has posted.
  func process(_ input: InstanceEngine<Hosted>.Input, in hosted: InstanceEngine<Hosted>) {
    // If the engine has no instance, it is at rest. Such an engine ignores late input, such as the
    // end of a cancelled effect.
    guard let instance = hosted.instance else { return }
    if let problem = problem(withInput: input) {
      core.onEnd?("instance '\(instance.key)': \(problem)")
      return
    }
    let current = core.engine
    core.engine = hosted.engine
    hosted.engine.process(input)
    end(instance)
    // If the former engine is now at rest, another instance will use it, so it is no longer the
    // current engine.
    let isAtRest = current === hosted.engine && hosted.instance == nil
    core.engine = isAtRest ? engines.idle : current
  }

  /// Returns the reason why an effect cannot emit an event; `nil` for any other input.
  private func problem(withInput input: InstanceEngine<Hosted>.Input) -> String? {
    guard let participation = core.participation,
      case .effectEvent(let event, _, _, let reply) = input,
      let name = EnumCases.name(of: event), let composites = participation.events[name]
    else { return nil }
    reply.resume(false)
    let list = composites.map { "'\($0)'" }.joined(separator: " or ")
    return
      "an effect emitted '\(name)', which is a synchronized event; effects of a node with 'key' "
      + "cannot emit such events; send the event to composite \(list) through a pipe"
  }

  // MARK: Engines of instances

  /// Gives an instance an engine, which becomes the current engine.
  func begin(_ instance: Instance<Hosted>) {
    if let hosted = instance.engine {
      core.engine = hosted.engine
      return
    }
    let hosted = engines.take(for: instance.key)
    hosted.instance = instance
    instance.engine = hosted
    core.engine = hosted.engine
    hosted.engine.restore(instance.state, version: instance.version)
    hosted.engine.effects.instance = instance.id
    if engines.hasEffects {
      hosted.engine.effects.keyScope = keyScope(of: instance.key, scope.stream)
    }
  }

  private func keyScope(of key: InstanceKey, _ stream: UInt64) -> IdempotencyKey.Scope {
    IdempotencyKey.Scope(node: "\(scope.node)[\(key)]", journal: stream)
  }

  /// Takes back the engine of an instance, if the engine is at rest.
  func end(_ instance: Instance<Hosted>) {
    guard let hosted = instance.engine else { return }
    engines.noteChanges(of: hosted)
    guard hosted.engine.isAtRest else { return }
    instance.engine = nil
    engines.put(back: hosted)
    if core.engine === hosted.engine { core.engine = engines.idle }
  }

  /// Called on each entry of an instance into a state.
  func entered(
    _ state: Hosted.State, version: UInt64, cause: String, in hosted: InstanceEngine<Hosted>
  ) {
    guard let instance = hosted.instance else { return }
    table.entered(instance, state, version: version, cause: cause)
    locks.participant?.noteStep(of: instance.key)
    if outlets.hasRules, let tag = EnumCases<Hosted.State>.tag(of: state) {
      outlets.fire(tag, of: instance.key) { (try? core.states.encode(state)) ?? [] }
    }
    publish(state, version: version, of: instance)
  }

  /// Called on each internal transition of an instance. An internal transition enters no state, so
  /// no rule fires.
  func stayed(
    in state: Hosted.State, version: UInt64, cause: String, in hosted: InstanceEngine<Hosted>
  ) {
    guard let instance = hosted.instance else { return }
    table.entered(instance, state, version: version, cause: cause)
    locks.participant?.noteStep(of: instance.key)
    publish(state, version: version, of: instance)
  }

  private func publish(_ state: Hosted.State, version: UInt64, of instance: Instance<Hosted>) {
    feed?.enqueue(instance: "\(nodeName)[\(instance.key)]") { name in
      guard let bytes = try? core.states.encode(state) else { return nil }
      return PublishedState(
        node: name, version: version, time: instance.time, cause: instance.cause, state: bytes)
    }
    onEntry?(false)
  }

  // MARK: Published states and status

  func lastStep() -> PublishedState? {
    guard hasStarted else { return nil }
    return PublishedState(
      version: table.version, time: table.last.time, cause: table.last.cause,
      state: table.countsJSON, inDoubtTransaction: locks.participant?.inDoubt(of: nodeName))
  }

  @export(interface)
  func fill(_ status: inout NodeStatus) {
    if core.isStarted { status.state = try? JSONValue(parsing: table.countsJSON) }
    status.version = table.version
    status.doubt = locks.participant?.inDoubt(of: nodeName)
    status.synchronization = locks.participant?.messages
    status.refused = engines.refusals + pipes.undecodableCount
    let ignored = engines.ignoredEvents
    status.ignored = ignored > 0 ? ignored : nil
    status.events = table.stepCount + status.refused + ignored
    core.deadLetters.fill(&status)
    status.effects = engines.runningEffects
    status.timer = timers.first.map { timer in
      RunningTimer(
        after: Duration.nanoseconds(timer.delay).shortText, due: timer.dueTime)
    }
    status.unconnected = outlets.discardedCount
    status.ins = pipes.pipeStatuses
    status.steps = stepDurations.count > 0 ? stepDurations : nil
  }

  // MARK: Traces of steps

  // Transitions and refusals of instances are not reported yet: see docs/INSTANCES.md.
  func count(_ counts: Bool) {}
  var transitions: TransitionCounts? { nil }
  func reportRefusals(to feed: Feed?) {}
  // A recorded run has no steps of instances yet: see docs/RUNS.md.
  func logSteps(in log: StepLog) -> Bool { false }

  @export(interface)
  func reportSteps(to feed: Feed?) { trace.reportSteps(to: feed, engines) }

  // MARK: Recording the turn

  var hasUnrecordedChanges: Bool {
    core.isStarted
      && (table.hasUnrecordedChanges || engines.hasUnrecordedEffects
        || timers.hasUnrecordedChanges || pipes.hasUnrecordedChanges
        || core.deadLetters.hasUnrecordedChanges || requests.hasUnrecordedChanges
        || locks.participant?.hasUnrecordedChanges == true)
  }

  var hasObsoleteRecords: Bool { locks.participant?.hasAborted == true }

  func record(into journal: Journal) throws {
    try table.record(into: journal)
    try pipes.record(into: journal)
    try core.deadLetters.record(into: journal)
    try requests.record(into: journal)
    try locks.participant?.record(into: journal)
    try engines.recordEffects(into: journal, core.states) {
      try core.noteProgress(of: $0, in: journal)
    }
    try timers.record(into: journal) { try core.noteProgress(of: $0, in: journal) }
  }

  func didRecord() {
    table.recorded()
    pipes.didRecord()
    if core.deadLetters.hasUnrecordedChanges {
      core.deadLetters.recorded()
      Failpoint.hit(.deadLetterAfter)
    }
    requests.didRecord()
    timers.recorded()
    engines.didRecord { end($0) }
    locks.participant?.didRecord()
  }
}
