/// Hosts a machine: the engine, the queues of what has arrived, and the outlets of its ports.
final class MachineContent<Hosted: Machine>: NodeContent {
  typealias State = Hosted.State
  typealias Event = Hosted.Event

  let description: MachineDescription
  var onStep: (() -> Void)?
  var onEnd: ((String?) -> Void)?

  private let engine: Engine<State, Event, Hosted.Output>
  private let ports: Ports
  private let log: NodeLog
  private let events = EventCodec<Event>()
  private let states = EventCodec<State>()
  private var queues: [PipeQueue<Event>] = []
  private var nextQueue = 0
  private var requests = Queue<(event: Event, reply: (RequestReply) -> Void)>()
  private var rules: [StateRule] = []
  private var outlets: [Outlet] = []
  private var outs: [OutPipe] = []
  private var isStarted = false
  private var letters = DeadLetters()
  private var undecodable: UInt64 = 0
  private var last = (time: Int64(0), cause: "")
  /// The event of a pipe whose step is under way.
  private var inFlight: (entry: PipeQueue<Event>.Entry, index: Int)?
  /// Made once: a closure for each event would be an allocation for each.
  private lazy var pipeStepDone: (StepOutcome<State>) -> Void = { [unowned self] outcome in
    finishPipeStep(outcome)
  }

  /// Steps taken before the loop looks at its sockets again. Unit: steps.
  private static var stepsPerTurn: Int { 512 }

  /// Makes the machine; its engine posts to the loop.
  init(
    parameters: Hosted.Parameters, log: NodeLog, loop: LoopHandle
  ) throws {
    self.log = log
    ports = Ports()
    let machine = Hosted.stateMachine(parameters)
    let runtime = Hosted.runtime(parameters, ports)
    description = try Hosted.describe(machine: machine, runtime: runtime, ports: ports)
    let owner = Weak()
    engine = Engine(machine: machine, runtime: runtime) { input in
      loop.post { owner.content?.engine.process(input) }
    }
    owner.content = self
    engine.onEntry = { [unowned self] state, _, cause in entered(state, cause: cause) }
  }

  // The loop's thread alone reads and writes it, after it was set once.
  private final class Weak: @unchecked Sendable {
    weak var content: MachineContent?
  }

  // MARK: Wiring

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
    if !ruled.isEmpty { engine.isHeld = { ruled.contains(where: \.isFull) } }
    let binder = Binder(pipes: byPort, log: log)
    ports.bind(with: binder)
    outlets = binder.outlets
    if let unknown = byPort.keys.first(where: { !ports.names.contains($0) }) {
      throw NodeProblem("machine '\(description.machine)' has no port '\(unknown)'")
    }
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

  func start() {
    isStarted = true
    engine.start()
  }

  func stop() {
    isStarted = false
    engine.stop()
    while let request = requests.popFirst() {
      request.reply(.unavailable("it is stopping; nothing was applied"))
    }
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

  func request(_ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void) {
    do {
      let event = try events.decode(body)
      if let full = outs.first(where: \.isFull) {
        reply(.busy("its pipe '\(full.name)' is full"))
      } else if requests.count >= 1_024 {
        reply(.busy("1024 requests wait already"))
      } else {
        requests.append((event, reply))
      }
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  var hasWork: Bool {
    guard isStarted, engine.canTakeInput else { return false }
    return !requests.isEmpty || queues.contains { $0.hasNext }
  }

  func takeTurn() {
    guard isStarted else { return }
    var budget = Self.stepsPerTurn
    while budget > 0, engine.canTakeInput, let request = requests.popFirst() {
      take(request.event, reply: request.reply)
      budget -= 1
    }
    var idle = 0
    while budget > 0, idle < queues.count, engine.canTakeInput {
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
    // What waits in the engine for room in a pipe goes on when there is some.
    if engine.canTakeInput { engine.process(.wake) }
  }

  private func take(_ event: Event, reply: @escaping (RequestReply) -> Void) {
    _ = engine.take(event, cause: "request") { [self] outcome in
      let state = (try? states.encode(engine.state)) ?? []
      switch outcome {
      case .moved(_, let version):
        retryPostponed()
        reply(.moved(version: version, state: state))
      case .refused(let refusal):
        reply(.refused(refusal, version: engine.version, state: state))
      case .pending: break
      }
    }
  }

  private func takeNext(of index: Int) {
    guard let entry = queues[index].popNext() else { return }
    let pipe = queues[index].pipe
    switch entry.content {
    case .undecodable(let problem, let text):
      undecodable += 1
      settle(entry, of: index, event: text, reason: problem, canPostpone: false)
    case .event(let event):
      inFlight = (entry, index)
      engine.take(event, cause: pipe.name, done: pipeStepDone)
    }
  }

  /// The step that an event of a pipe led to is done, now or after an asynchronous transition.
  private func finishPipeStep(_ outcome: StepOutcome<State>) {
    guard let (entry, index) = inFlight else { return }
    inFlight = nil
    switch outcome {
    case .moved:
      queues[index].pipe.finished(entry.sequence)
      retryPostponed()
    case .refused(let refusal):
      guard case .event(let event) = entry.content else { return }
      let text = (try? JSONValue(parsing: events.encode(event))) ?? .null
      settle(
        entry, of: index, event: text, reason: "refused: \(refusal.rawValue)", canPostpone: true)
    case .pending: break
    }
  }

  /// Does with an event that was not applied what its pipe says.
  private func settle(
    _ entry: PipeQueue<Event>.Entry, of index: Int, event: JSONValue, reason: String,
    canPostpone: Bool
  ) {
    let pipe = queues[index].pipe
    switch pipe.onRefused {
    case .postpone where canPostpone:
      queues[index].postpone(entry)
    case .record, .postpone:
      letters.add(
        DeadLetter(pipe: pipe.name, sequence: entry.sequence, event: event, reason: reason))
      if letters.count <= 3 || letters.count.nonzeroBitCount == 1 {
        log.warning(
          "pipe '\(pipe.name)': event \(entry.sequence) \(event.text): \(reason), "
            + "in state \(stateText) (\(letters.count) dead letters so far)")
      }
      pipe.finished(entry.sequence)
    case .fail:
      onEnd?(
        "pipe '\(pipe.name)': event \(entry.sequence) \(event.text): \(reason), "
          + "in state \(stateText), and the pipe says 'on_refused: fail'")
    }
  }

  private var stateText: String {
    (try? states.encode(engine.state)).map { String(decoding: $0, as: UTF8.self) } ?? "?"
  }

  private func retryPostponed() {
    for index in queues.indices { queues[index].retryPostponed() }
  }

  // MARK: Output

  private func entered(_ state: State, cause: String) {
    last = (WallClock.nanoseconds, cause)
    if !rules.isEmpty, let tag = EnumCases<State>.tag(of: state) {
      var json: [UInt8]?
      for rule in rules where rule.tag == tag {
        rule.fire { () -> [UInt8] in
          if json == nil { json = try? states.encode(state) }
          return json ?? []
        }
      }
    }
    onStep?()
  }

  func lastStep() -> FeedEntry? {
    guard isStarted || engine.version > 0, let state = try? states.encode(engine.state) else {
      return nil
    }
    return FeedEntry(
      version: engine.version, time: last.time, cause: last.cause, state: state)
  }

  func fill(_ status: inout NodeStatus) {
    if isStarted, let state = try? states.encode(engine.state) {
      status.state = try? JSONValue(parsing: state)
    }
    status.version = engine.version
    status.refused = engine.refusals + undecodable
    status.events = engine.version + status.refused
    status.letters = letters.count
    status.recentLetters = Array(letters.recent.suffix(5))
    status.effects = engine.runningEffects
    status.unconnected = outlets.reduce(0) { $0 + $1.discarded }
    status.ins = queues.map(\.status)
  }
}

/// Why a content cannot run as it is wired.
struct NodeProblem: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}
