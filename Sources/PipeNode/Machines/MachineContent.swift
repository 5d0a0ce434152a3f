import PipeJournal
import PipeMachines
import PipeSupport
import PipeWire

/// Hosts a machine: the engine, the queues of what has arrived, and the outlets of its ports.
final class MachineContent<Hosted: Machine>: NodeContent {
  typealias State = Hosted.State
  typealias Event = Hosted.Event

  let description: MachineDescription
  var onEntry: ((_ isCommitted: Bool) -> Void)?
  var onEnd: ((String?) -> Void)?

  let engine: Engine<State, Event, Hosted.Output>
  let log: NodeLog
  /// The node's name.
  let node: String
  let journal: Journal?
  let events = EventCodec<Event>()
  let states = EventCodec<State>()
  private let ports = Ports()
  var queues: [PipeQueue<Event>] = []
  private var nextQueue = 0
  var requests = RequestBook()
  var inputs = Queue<ClientInput<Event>>()
  private var rules: [StateRule] = []
  var outlets: [Outlet] = []
  var outs: [OutPipe] = []
  var isStarted = false
  private var hasStarted = false
  var letters: DeadLetters
  var undecodable: UInt64 = 0
  var last = (time: Int64(0), cause: "")
  /// The event of a pipe whose step is under way.
  var inFlight: (entry: PipeQueue<Event>.Entry, index: Int)?
  /// Made once: a closure for each event would be an allocation for each.
  lazy var pipeStepDone: (StepOutcome<State>) -> Void = { [unowned self] outcome in
    finishPipeStep(outcome)
  }
  /// Marks the steps of each queue, where steps are recorded.
  var marks: [StepMark.Source] = []
  var poison: PoisonEvent?
  /// What an earlier process left, until the start.
  var restored: RestoredMachine<State>?
  let incarnation: UInt64
  /// How many synchronized events the effects that run have given.
  var raisedCounts: [UInt64: UInt64] = [:]
  /// What awaits the next record.
  var unrecorded: UnrecordedSteps
  /// Its part in synchronized events, where it has one.
  var participant: Participant?
  /// What the participant calls; set once.
  var participatingMachine: TypedParticipatingMachine?
  /// Whether the step under way is one that the coordinator has committed.
  var isCommitted = false
  /// The event that it is prepared to take, and the state that it leads to.
  var prepared: (event: Event, next: State)?

  /// Steps taken before the loop looks at its sockets again. Unit: steps.
  private static var stepsPerTurn: Int { 512 }

  /// Makes the machine, in its recorded state where there is one; its engine posts to the loop.
  @export(interface)
  init(parameters: Hosted.Parameters, hosting: Hosting) throws {
    log = hosting.log
    node = hosting.node
    journal = hosting.journal
    incarnation = hosting.incarnation
    let machine = Hosted.stateMachine(parameters)
    let runtime = Hosted.runtime(parameters, ports)
    description = try Hosted.describe(machine: machine, runtime: runtime, ports: ports)
    let owner = Weak()
    let loop = hosting.loop
    engine = Engine(machine: machine, runtime: runtime) { input in
      loop.post { owner.content?.process(input) }
    }
    letters = DeadLetters(journal: journal)
    unrecorded = UnrecordedSteps()
    owner.content = self
    engine.keyScope = IdempotencyKey.Scope(
      node: "\(hosting.topology)/\(hosting.node)",
      journal: journal?.stream ?? UInt64.random(in: 1...UInt64(Int64.max)))
    engine.onProblem = { [log] in log.warning($0) }
    try restore()
  }

  /// Lets the engine tell of each entry; its caller is compiled for the machine, and so is what is made
  /// here for each step.
  func observeEntries() {
    engine.onEntry = { [unowned self] state, _, cause in entered(state, cause: cause) }
  }

  // The loop's thread alone reads and writes it, after it was set once.
  private final class Weak: @unchecked Sendable {
    weak var content: MachineContent?
  }

  // MARK: Wiring

  @export(interface)
  func connect(outs pairs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    queues = ins.map { PipeQueue(pipe: $0) }
    outs = pairs.map(\.1)
    var byPort: [String: [OutPipe]] = [:]
    for (configuration, pipe) in pairs {
      if let port = configuration.port { byPort[port, default: []].append(pipe) }
      if let rule = configuration.rule {
        rules.append(try StateRule(rule, pipe: pipe, states: description.states))
      }
    }
    let ruled = pairs.filter { $0.0.rule != nil }.map(\.1)
    if !ruled.isEmpty { engine.isBlocked = { ruled.contains(where: \.isFull) } }
    let binder = Binder(pipes: byPort, log: log)
    ports.bind(with: binder)
    outlets = binder.outlets
    if let unknown = byPort.keys.first(where: { !ports.names.contains($0) }) {
      throw NodeProblem("machine '\(description.machine)' has no port '\(unknown)'")
    }
    restorePipes()
  }

  private final class Binder: PortBinder {
    let pipes: [String: [OutPipe]]
    let log: NodeLog
    var outlets: [Outlet] = []

    init(pipes: [String: [OutPipe]], log: NodeLog) {
      self.pipes = pipes
      self.log = log
    }

    func bind<Carried: MachineEvent>(_ pipe: Pipe<Carried>) {
      let outlet = PortOutlet(pipe, pipes: pipes[pipe.name ?? ""] ?? [], log: log)
      outlets.append(outlet)
      pipe.bind(to: outlet)
    }
  }

  // MARK: Input

  @export(interface)
  func start() {
    isStarted = true
    hasStarted = true
    if let restored {
      self.restored = nil
      resume(restored)
    } else {
      engine.start()
      Failpoint.hit(.startAfter)
    }
    participant?.started()
  }

  @export(interface)
  func stop() {
    isStarted = false
    participant?.stop()
    engine.stop()
    let unavailable = RequestReply.unavailable("it is stopping; nothing was applied")
    while let input = inputs.popFirst() {
      if case .letter(_, _, let reply) = input { reply(unavailable) }
    }
    for reply in requests.takeWaiting() { reply(unavailable) }
  }

  func accept(
    _ body: UnsafeRawBufferPointer, count: UInt32, skipping: Int, first: UInt64, from pipe: InPipe
  ) throws(FrameError) {
    guard let index = queues.firstIndex(where: { $0.pipe === pipe }) else { return }
    var place = 0
    var sequence = first
    try EventBatch.forEach(in: body, count: count) { bytes in
      defer { place += 1 }
      guard place >= skipping else { return }
      do {
        queues[index].append(try events.decode(bytes), sequence: sequence)
      } catch {
        queues[index].appendUndecodable("\(error)", bytes: bytes, sequence: sequence)
      }
      sequence += 1
    }
  }

  var hasWork: Bool {
    guard isStarted, engine.canTakeInput else { return false }
    return !inputs.isEmpty || queues.contains { $0.hasNext } || engine.hasWaiting
  }

  func takeTurn() {
    guard isStarted else { return }
    var budget = Self.stepsPerTurn
    while budget > 0, engine.canTakeInput, let input = inputs.popFirst() {
      take(input)
      budget -= 1
    }
    var idle = 0
    while budget > 0, idle < queues.count, isStarted, engine.canTakeInput {
      // One event of each pipe in turn, so that none starves.
      let index = nextQueue
      nextQueue = (nextQueue + 1) % queues.count
      guard queues[index].hasNext else {
        idle += 1
        continue
      }
      idle = 0
      budget -= 1
      takeNext(of: index)
    }
    // What waits in the engine for room in a pipe, or for the end of a synchronized event, goes on.
    if engine.canTakeInput { engine.process(.wake) }
  }

  /// What an earlier state refused may go now; that which has waited longest is tried first, so that
  /// no pipe starves.
  private func retryPostponed() {
    var oldest = Int64.max
    for index in queues.indices {
      guard let held = queues[index].retryPostponed(), held < oldest else { continue }
      oldest = held
      nextQueue = index
    }
  }

  // MARK: Output

  private func entered(_ state: State, cause: String) {
    last = (WallClock.nanoseconds, cause)
    retryPostponed()
    if !rules.isEmpty, let tag = EnumCases<State>.tag(of: state) {
      var json: [UInt8]?
      for rule in rules where rule.tag == tag {
        rule.fire { () -> [UInt8] in
          if json == nil { json = try? states.encode(state) }
          return json ?? []
        }
      }
    }
    onEntry?(isCommitted)
  }

  func lastStep() -> FeedEntry? {
    guard hasStarted, let state = try? states.encode(engine.state) else {
      return nil
    }
    return FeedEntry(
      version: engine.version, time: last.time, cause: last.cause, state: state,
      doubt: participant?.inDoubt(of: node))
  }

  @export(interface)
  var stateText: String {
    (try? states.encode(engine.state)).map { String(decoding: $0, as: UTF8.self) } ?? "?"
  }

  @export(interface)
  func fill(_ status: inout NodeStatus) {
    if isStarted, let state = try? states.encode(engine.state) {
      status.state = try? JSONValue(parsing: state)
    }
    status.version = engine.version
    status.doubt = participant?.inDoubt(of: node)
    status.refused = engine.refusals + undecodable
    status.events = unrecorded.taken(version: engine.version) + status.refused
    letters.fill(&status)
    status.effects = engine.runningEffects
    status.unconnected = outlets.reduce(0) { $0 + $1.discarded }
    status.ins = queues.map(\.status)
    status.synchronization = participant?.messages
  }
}

/// Why a content cannot run as it is wired.
struct NodeProblem: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
