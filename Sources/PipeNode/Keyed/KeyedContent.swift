import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeWire

/// The content of a node with a `key`: one instance of the machine for each value of the key.
///
/// The events of all instances share the node's inbox, pipes, requests and dead letters. An event
/// goes to the instance whose key it carries. One record has the instances that changed in a turn,
/// the numbers of the consumed events, and the outbox.
final class KeyedContent<Hosted: Machine>: PipedContent, SteppingContent, RequestableContent,
  JournaledContent, DeadLetteringContent, ExplainableContent, SelfEndingContent,
  InstancePublishingContent
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
  @exclusivity(unchecked)
  private var keys: InstanceKeyReader
  /// The keys of the events that wait, by pipe. An event's bytes are gone when its turn comes.
  @exclusivity(unchecked)
  private var waitingKeys: [Queue<Result<InstanceKey, InstanceKeyError>>] = []
  private let scope: (node: String, stream: UInt64)
  @exclusivity(unchecked)
  private var feed: Feed?
  private var hasStarted = false
  /// The durations of the steps that are measured.
  @exclusivity(unchecked)
  private var durations = DurationCounts()

  /// The maximum number of steps before the loop polls its sockets again. Unit: steps.
  private static var stepsPerTurn: Int { 512 }

  @export(interface)
  init(
    parameters: Hosted.Parameters, _ instances: NodeArguments.Instances, hosting: HostingContext
  ) throws {
    let journal = hosting.journal
    try journal?.keep(instanceField: instances.key)
    let finalTags = try Self.finalTags(instances)
    let meter = StateMeter<Hosted.State>(
      isSynthesized: Hosted.State._isSynthesizedCodable,
      isExact: journal?.marker.measuresEachStep == true)
    func complete(
      _ machine: StateMachine<Hosted.State, Hosted.Event, Hosted.Output>
    ) -> StateMachine<Hosted.State, Hosted.Event, Hosted.Output> {
      machine.refusing(by: meter).ending(in: finalTags)
    }
    let machine = complete(Hosted.stateMachine(parameters))
    let runtime = Hosted.runtime(parameters, ports)
    description = try Hosted.describe(machine: machine, runtime: runtime, ports: ports)
    if let problem = machine.problem(withInitial: description.initial) {
      throw NodeSetupError(problem)
    }
    if runtime.hasModel {
      throw NodeSetupError(
        "machine '\(Hosted.name)' runs a model; a node with 'key' runs machines that are written in "
          + "the language, or as a function of state and event")
    }
    let own = InstanceParameters<Hosted.Parameters>(
      hosting.parameters, key: instances.key)
    let engines = InstanceEngines<Hosted>(
      (machine, runtime),
      own: own.map { [ports] own in
        { key in
          own.parameters(of: key).map { parameters in
            (complete(Hosted.stateMachine(parameters)), Hosted.runtime(parameters, ports))
          }
        }
      }, loop: hosting.loop, log: hosting.log, isRecorded: journal != nil)
    self.engines = engines
    keys = InstanceKeyReader(field: instances.key)
    core = try MachineCore(engines.idle, meter, hosting: hosting)
    outlets = MachineOutlets(log: hosting.log)
    table = try InstanceTable(
      journal, node: hosting.node, incarnation: hosting.incarnation, log: hosting.log,
      limit: instances.resident, endings: InstanceEndings(finalTags, keptFor: instances.keep),
      states: core.states)
    requests = MachineRequests(core, outlets)
    pipes = MachinePipes(core)
    scope = (
      "\(hosting.topology)/\(hosting.node)",
      journal?.stream ?? UInt64.random(in: 1...UInt64(Int64.max))
    )
    if let journal { CrashWatch.begin(journal.marker) }
    try journal?.keep(stateFields: nil)
    if journal?.contents != nil { Failpoint.hit(.restoreAfter) }
    engines.owner.content = self
    engines.owner.caller = self
  }

  /// Returns the tags of the final states.
  private static func finalTags(_ instances: NodeArguments.Instances) throws -> Set<Int> {
    let names = EnumCases<Hosted.State>.names
    return Set(
      try instances.final.map { label in
        guard let tag = names.firstIndex(of: label) else {
          throw NodeSetupError(
            "machine '\(Hosted.name)' has no state '\(label)', listed in 'final'")
        }
        return tag
      })
  }

  /// Returns the content for the node, with its frequent calls compiled for the machine's type; see
  /// ``FrequentCalls``.
  func hosted() -> HostedContent {
    HostedContent(
      self,
      FrequentCalls(
        accept: { events, pipe throws(FrameError) in try self.accept(events, from: pipe) },
        takeTurn: { self.takeTurn() }, hasWork: { self.hasWork }, lastStep: { self.lastStep() },
        hasUnrecordedChanges: { self.hasUnrecordedChanges }, record: { try self.record(into: $0) },
        didRecord: { self.didRecord() }))
  }

  var onEnd: ((String?) -> Void)? {
    get { core.onEnd }
    set { core.onEnd = newValue }
  }

  // MARK: Wiring

  @export(interface)
  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    pipes.connect(ins)
    waitingKeys = ins.map { _ in Queue() }
    try outlets.connect(outs, ports, of: description)
    observePipes()
    guard let contents = core.journal?.contents else { return }
    pipes.restore(contents.consumed)
    for (name, sent) in contents.sent where !sent.events.isEmpty && !outlets.hasDurable(name) {
      core.log.warning(
        "pipe '\(name)' no longer starts at this node; \(sent.events.count) undelivered events "
          + "stay in the journal")
    }
  }

  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    try outlets.connect(outs, ports, of: description)
    observePipes()
  }

  /// Lets all engines wait while a pipe of a rule is full.
  private func observePipes() {
    engines.mustWait = outlets.hasRules ? { [outlets] in outlets.isRulePipeFull } : nil
  }

  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {
    guard configuration.participant == nil else {
      throw NodeSetupError("a node with 'key' cannot be part of a composite yet")
    }
  }

  // MARK: Input

  @export(interface)
  func start() {
    core.begin()
    hasStarted = true
    do { try resumeEffects() } catch { core.onEnd?("\(error)") }
    let isFirst = core.journal?.contents == nil
    core.journal?.forgetContents()
    if isFirst { Failpoint.hit(.startAfter) }
    onEntry?(false)
  }

  /// Runs the effects again that had not ended in the last process.
  private func resumeEffects() throws {
    guard let journal = core.journal, journal.contents != nil else { return }
    let parked = try journal.deadLetteredEffects()
    for (key, effect) in try journal.instanceEffects() {
      guard let instance = try table.find(key) else { continue }
      let (origin, state) = (effect.origin, try table.state(effect.state, of: key))
      let poison = core.poisonEffect.flatMap { $0.origin == origin ? $0 : nil }
      begin(instance)
      if !core.engine.resumeEffect(
        of: state, origin, elapsed: effect.elapsed,
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
    engines.stop()
    requests.stop()
  }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    try events.forEach { bytes, _ in waitingKeys[pipe.index].append(key(ofEvent: bytes)) }
    try pipes.accept(events, from: pipe)
  }

  private func key(
    ofEvent bytes: UnsafeRawBufferPointer
  ) -> Result<InstanceKey, InstanceKeyError> {
    Result { () throws(InstanceKeyError) in try keys.key(ofEvent: bytes) }
  }

  /// Returns the key of an event that came from a client, or from an operator's dead letter.
  private func key(of event: Hosted.Event) -> Result<InstanceKey, InstanceKeyError> {
    guard let bytes = try? core.events.encode(event) else {
      return .failure(.missing(field: keys.field))
    }
    return bytes.withUnsafeBytes { key(ofEvent: $0) }
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply
  ) {
    withoutInstance {
      requests.request(body, key: key, oldest: oldest, wantsState: wantsState, reply: reply)
    }
  }

  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard let found = core.deadLetters[id],
      let effect = EffectOrigin(ofDeadLetterFrom: found.pipe, found.sequence), effect.instance != 0,
      let hosted = engines.engine(ofInstance: effect.instance), let instance = hosted.instance
    else { return requests.deadLetter(id, drops: drops, reply: reply) }
    let current = core.engine
    core.engine = hosted.engine
    requests.deadLetter(id, drops: drops, reply: reply)
    end(instance)
    core.engine = current
  }

  @export(interface)
  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply) {
    do {
      let key = try instanceKey(key, or: body)
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
      explanation.time = instance.time
      explanation.cause = instance.cause
      requests.answerWhenRecorded(.explained(by: explanation), to: reply)
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  /// Returns the key that a question names, or the key in the question's event.
  private func instanceKey(_ text: String?, or body: UnsafeRawBufferPointer) throws -> InstanceKey {
    if let text {
      let key = try InstanceKey(text)
      guard engines.accepts(key) else {
        throw NodeSetupError("the machine does not accept the key '\(key)' as a parameter")
      }
      return key
    }
    guard !body.isEmpty else {
      throw NodeSetupError(
        "the node has instances; name one, as in '\(core.node)[KEY]'")
    }
    return try keys.key(ofEvent: body)
  }

  func publishInstances(to feed: Feed) { self.feed = feed }

  var hasWork: Bool {
    guard core.isStarted else { return false }
    if engines.hasReadyInput { return true }
    return core.engine.canTakeInput && !core.inbox.isEmpty
  }

  func takeTurn() {
    guard core.isStarted else { return }
    let start = core.inbox.isEmpty ? nil : BootClock.nanoseconds
    var budget = Self.stepsPerTurn
    defer { core.journal?.endLookups() }
    while budget > 0, core.isStarted, core.engine.canTakeInput, let input = core.inbox.next() {
      budget -= 1
      take(input)
      if let start, budget == Self.stepsPerTurn - 1 {
        durations.add(nanoseconds: BootClock.nanoseconds - start)
      }
    }
    engines.wake { process(.wake, in: $0) }
  }

  private func take(_ input: MachineInbox<Hosted.Event, ClientInput<Hosted.Event>>.Input) {
    switch input {
    case .request(.event(let event, let key, let wantsState)):
      take(
        event, of: self.key(of: event),
        { requests.take(.event(event, key, wantsState: wantsState)) }
      ) {
        requests.reject(key, because: $0)
      }
    case .request(.deadLetter(let id, let event, let reply)):
      take(event, of: key(of: event), { requests.take(.deadLetter(id, event, reply: reply)) }) {
        reply(.invalid($0))
      }
    case .event(let event, let pipe):
      let key = waitingKeys[pipe].popFirst()
      guard case .event(let content) = event.content else {
        return withoutInstance { pipes.take(event, of: pipe) }
      }
      take(content, of: key ?? self.key(of: content), { pipes.take(event, of: pipe) }) { reason in
        withoutInstance { pipes.reject(event, of: pipe, because: reason) }
      }
    }
  }

  /// Takes an event for the instance whose key it carries. The first event for a key that the
  /// initial state accepts creates the instance.
  /// - Parameter reject: Called with the reason if the event has no valid key.
  private func take(
    _ event: Hosted.Event, of key: Result<InstanceKey, InstanceKeyError>, _ body: () -> Void,
    reject: (String) -> Void
  ) {
    guard case .success(let key) = key else {
      if case .failure(let error) = key { reject("\(error)") }
      return
    }
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
    guard engines.accepts(key) else {
      return reject(
        "parameter '\(keys.field)' of machine '\(Hosted.name)' does not accept the key '\(key)'")
    }
    let instance = engines.makeInstance(key)
    begin(instance)
    // An event that the initial state refuses leaves no instance behind.
    if !engines.isRefused(event, by: key) {
      table.add(instance)
      core.engine.effects.instance = instance.id
      core.engine.enterInitialState()
    }
    body()
    end(instance)
  }

  private func withoutInstance(_ body: () -> Void) {
    core.hasState = false
    defer { core.hasState = true }
    body()
  }

  /// Processes an input that a task of an instance has posted.
  func process(_ input: InstanceEngine<Hosted>.Input, in hosted: InstanceEngine<Hosted>) {
    // The instance of an engine at rest needs no late input, such as the end of a cancelled effect.
    guard let instance = hosted.instance else { return }
    let current = core.engine
    core.engine = hosted.engine
    hosted.engine.process(input)
    end(instance)
    // An engine at rest serves another instance next.
    let isAtRest = current === hosted.engine && hosted.instance == nil
    core.engine = isAtRest ? engines.idle : current
  }

  // MARK: Engines

  private func begin(_ instance: Instance<Hosted>) {
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
      hosted.engine.effects.keyScope = IdempotencyKey.Scope(
        node: "\(scope.node)[\(instance.key)]", journal: scope.stream)
    }
  }

  private func end(_ instance: Instance<Hosted>) {
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
    if outlets.hasRules, let tag = EnumCases<Hosted.State>.tag(of: state) {
      outlets.fire(tag, of: instance.key) { (try? core.states.encode(state)) ?? [] }
    }
    feed?.enqueue(instance: "\(core.node)[\(instance.key)]") { name in
      guard let bytes = try? core.states.encode(state) else { return nil }
      return FeedEntry(
        node: name, version: version, time: instance.time, cause: cause, state: bytes)
    }
    onEntry?(false)
  }

  // MARK: Output

  func lastStep() -> FeedEntry? {
    guard hasStarted else { return nil }
    return FeedEntry(
      version: table.version, time: table.last.time, cause: table.last.cause,
      state: table.countsJSON)
  }

  @export(interface)
  func fill(_ status: inout NodeStatus) {
    if core.isStarted { status.state = try? JSONValue(parsing: table.countsJSON) }
    status.version = table.version
    status.refused = engines.refusals + pipes.undecodable
    status.events = table.stepCount + status.refused
    core.deadLetters.fill(&status)
    status.effects = engines.runningEffects
    status.unconnected = outlets.discarded
    status.ins = pipes.status
    status.steps = durations.count > 0 ? durations : nil
  }

  // MARK: Records

  var hasUnrecordedChanges: Bool {
    core.isStarted
      && (table.hasUnrecordedChanges || engines.hasUnrecordedEffects || pipes.hasUnrecordedChanges
        || core.deadLetters.hasUnrecordedChanges || requests.hasUnrecordedChanges)
  }

  var hasObsoleteRecords: Bool { false }

  func record(into journal: Journal) throws {
    try table.record(into: journal)
    try pipes.record(into: journal)
    try core.deadLetters.record(into: journal)
    try requests.record(into: journal)
    try engines.recordEffects(into: journal, core.states) {
      try core.noteProgress(of: $0, in: journal)
    }
  }

  func didRecord() {
    table.recorded()
    pipes.recorded()
    if core.deadLetters.hasUnrecordedChanges {
      core.deadLetters.recorded()
      Failpoint.hit(.letterAfter)
    }
    requests.recorded()
    engines.didRecord { end($0) }
  }
}

/// The parameters of a machine that takes the key of its instance as a parameter.
struct InstanceParameters<Parameters: MachineParameters> {
  private let given: [String: JSONValue]
  private let key: String

  /// Returns `nil` if the machine has no parameter with the name of the key.
  init?(_ given: JSONValue, key: String) {
    guard Parameters.hasParameter(named: key) else { return nil }
    if case .object(let members) = given { self.given = members } else { self.given = [:] }
    self.key = key
  }

  /// Returns the parameters of an instance; `nil` if they do not accept the key.
  func parameters(of key: InstanceKey) -> Parameters? {
    // A parameter that is an integer accepts no text.
    let integer = Int64(key.text).map { JSONValue.integer($0) }
    for value in [JSONValue.string(key.text), integer].compactMap(\.self) {
      let members = given.merging([self.key: value]) { $1 }
      if let parameters = try? Parameters(parameters: .object(members)) { return parameters }
    }
    return nil
  }
}
