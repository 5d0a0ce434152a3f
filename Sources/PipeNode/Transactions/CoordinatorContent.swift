import PipeJournal
import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Hosts the coordinator of one conflict class of composites: performs what
/// ``CoordinatorStateMachine`` decides, and shows the composites' states.
final class CoordinatorContent: TakesInputs, ShowsStates, RecordsSteps, HasDeadLetters,
  AnswersQuestions, Coordinates, EndsByItself
{
  /// By their names, the composite states of the program: each a function of components' states.
  typealias Projections = [String: ([JSONValue]) throws -> JSONValue]

  /// What its journal and its description name instead of a machine.
  static let machineName = JournalSnapshot.compositeMachine

  let description: MachineDescription
  var onEnd: ((String?) -> Void)?
  let log: NodeLog
  private let node: String
  let journal: Journal?
  private let projections: Projections
  var coordinator: CoordinatorStateMachine
  var states: CompositeStates?
  /// The composites whose states are known from the journal, until the start.
  private var restoredComposites: Set<String> = []
  private(set) var services: NodeServices?
  private(set) var plan: CoordinatorPlan?
  /// The composites by their names.
  private(set) var composites: [String: CompositePlan] = [:]
  private(set) var links: [String: CoordinatorLink] = [:]
  private var watch: FeedWatch?
  private var timers: [CoordinatorStateMachine.Timer: TimerQueue.ID] = [:]
  private(set) var isStarted = false
  var pipes: [CoordinatorPipe] = []
  var letters: DeadLetters
  /// What callers wait for.
  private(set) var callers: [RequestID: (RequestReply) -> Void] = [:]
  private var lastUnnamed: UInt64 = 0
  // What the journal lacks.
  var records: [CoordinatorRecord] = []
  var acknowledged: [TransactionID] = []
  var forgotten: [TransactionID] = []
  private var published: [String: (time: Int64, cause: String)] = [:]
  private var counts: (requests: UInt64, refused: UInt64) = (0, 0)
  /// Those of callers that are connected to the inbox.
  var messages = NodeStatus.Messages()

  /// How long participants have to answer before the event is given up.
  private static let voteTimeout: Duration = .seconds(2)
  /// How long participants have to acknowledge a commit before it is sent again.
  private static let resendInterval: Duration = .milliseconds(200)
  /// How long a request that is not to wait waits while its participants have part in no commit.
  private static let lockTimeout: Duration = .seconds(1)
  /// How long participants that run may take to join after a start.
  private static let joinTimeout: Duration = .seconds(1)
  /// How long a request that waits is left alone, where no participant tells of a change.
  private static let retryInterval: Duration = .milliseconds(500)
  /// How often a participant that has said nothing is asked for a word.
  private static let probeInterval: Duration = .seconds(5)
  /// How long a request that was overtaken keeps others back.
  private static let patience: Duration = .milliseconds(50)

  /// - Parameter incarnation: No two processes of the node have the same.
  init(
    node: String, incarnation: UInt64, journal: Journal?, projections: Projections, log: NodeLog
  ) throws(JournalError) {
    self.node = node
    self.journal = journal
    self.projections = projections
    self.log = log
    var known = try journal?.coordinator() ?? CoordinatorJournal()
    // Without a journal, or with a new one, the starts still tell transactions apart.
    if incarnation > 0 {
      if known.epoch == 0 {
        known.forgottenThrough = TransactionID(
          epoch: incarnation - 1, sequence: UInt64(Int64.max))
        forgotten.append(known.forgottenThrough)
      }
      known.epoch = max(known.epoch, incarnation - 1)
    }
    coordinator = CoordinatorStateMachine(name: node, journal: known)
    letters = DeadLetters(journal: journal)
    recovered = known.commits.filter { !known.acknowledged.contains($0.transaction) }
    description = MachineDescription(
      machine: Self.machineName, initial: .null, states: [], events: [], alphabet: [], outputs: [],
      outPorts: [], inPorts: [])
  }

  /// What composite states make of the states of components.
  static func projections(_ composites: [any CompositeState.Type]) -> Projections {
    func projection<State: CompositeState>(
      _ type: State.Type
    ) -> ([JSONValue]) throws -> JSONValue {
      let project = type.projection
      return { try JSONValue(encoding: project(json: $0)) }
    }
    return Dictionary(composites.map { ($0.name, projection($0)) }) { first, _ in first }
  }

  /// The commits that may not have reached all participants when the last process ended.
  private var recovered: [CommitRecord]

  // MARK: Wiring

  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    guard outs.isEmpty else { throw NodeProblem("no pipe leads from a composite") }
    pipes = ins.map { CoordinatorPipe($0) }
    journal?.forgetContents()
  }

  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {
    guard let plan = configuration.plan else {
      throw NodeProblem("the orchestrator did not tell which composites it is to coordinate")
    }
    self.services = services
    self.plan = plan
    composites = Dictionary(plan.conflictClass.composites.map { ($0.name, $0) }) { first, _ in
      first
    }
    var shown: Projections = [:]
    for composite in plan.conflictClass.composites {
      guard let name = composite.projection else { continue }
      guard let projection = projections[name] else {
        throw NodeProblem("this program has no composite state '\(name)'")
      }
      shown[composite.name] = projection
    }
    var states = CompositeStates(plan.conflictClass.composites, projections: shown)
    if !recovered.isEmpty {
      log.note(
        "\(recovered.count) synchronized events are committed, and not all participants have said "
          + "that they know: they are told again")
    }
    for commit in recovered { restoredComposites.formUnion(states.committed(commit.moves)) }
    recovered = []
    self.states = states
  }

  func start() {
    guard let services, let plan else { return }
    isStarted = true
    perform(coordinator.start())
    let participants = Set(plan.conflictClass.participants)
    release(except: participants)
    do {
      for component in plan.components where participants.contains(component.name) {
        let link = try CoordinatorLink(
          to: component, of: node, services: services, log: log)
        let name = component.name
        link.onMessage = { [weak self] in self?.take($0, from: name) }
        link.onChange = { [weak self] in self?.participant(name, hasJoined: $0) }
        link.onRequest = { [weak self, weak link] header, body in
          self?.synchronize(header, body) { reply in
            guard let link else { return }
            self?.answer(reply, to: header.sequence, over: link)
          }
        }
        links[name] = link
      }
      watch = try FeedWatch(
        feeds: plan.components.map(\.feed), topic: Feed.uncommitted, in: services.context,
        loop: services.loop
      ) { [weak self] in self?.told($0) }
      probeLater()
      // Their components may have nothing to tell beyond what was committed.
      show(restoredComposites.sorted(), cause: "restored")
      restoredComposites = []
    } catch {
      onEnd?("its participants cannot be connected: \(error)")
    }
  }

  private func probeLater() {
    services?.loop.schedule(after: Self.probeInterval, for: self) { content in
      guard content.isStarted else { return }
      for link in content.links.values { link.probe() }
      content.probeLater()
    }
  }

  /// Gives up what is not decided; what is committed goes on until all have acknowledged it.
  func prepareToStop() { perform(coordinator.stop()) }

  var mayStop: Bool { coordinator.transactionsUnderWay.isEmpty }

  func stop() {
    guard isStarted else { return }
    isStarted = false
    perform(coordinator.stop())
    for timer in timers.values { services?.loop.cancel(timer) }
    timers = [:]
    watch?.close()
    watch = nil
    for link in links.values { link.close() }
    links = [:]
  }

  // MARK: Participants

  private func take(_ message: ParticipantMessage, from name: String) {
    if case .query = message { reach(.queryReceived, with: name) }
    perform(coordinator.received(message, from: name))
  }

  /// - Parameter join: `nil` where it is not connected any more.
  private func participant(_ name: String, hasJoined join: ParticipantJoin?) {
    perform(
      join.map { coordinator.connected(name, watermark: $0.watermark, prepared: $0.prepared) }
        ?? coordinator.disconnected(name))
  }

  private func answer(_ reply: RequestReply, to request: UInt64, over link: CoordinatorLink) {
    link.hold(reply, to: request)
    if isPerforming { holders.append(link) } else { link.flush() }
  }

  // MARK: What is decided

  func perform(_ actions: [CoordinatorStateMachine.Action]) {
    isPerforming = true
    defer {
      isPerforming = false
      for link in holders { link.flush() }
      holders.removeAll(keepingCapacity: true)
    }
    for action in actions {
      switch action {
      case .record(let record): records.append(record)
      case .acknowledged(let transaction):
        acknowledged.append(transaction)
        reach(.commitFinished)
        for name in states?.settled({ !coordinator.isCommitting($0) }) ?? [] {
          watch?.askAgain(name)
        }
      case .forget(let transaction): forgotten.append(transaction)
      case .send(let message, let participant):
        if case .abort = message { reach(.abortBefore, with: participant) }
        links[participant]?.send(message)
        switch message {
        case .prepare: reach(.prepareSent, with: participant)
        case .commit: reach(.commitSent, with: participant)
        case .abort: reach(.abortSent, with: participant)
        case .deliver: break
        }
      case .reply(let id, let reply): answer(id, reply)
      case .publish(_, let moves):
        guard let changed = states?.committed(moves) else { break }
        show(changed, cause: committing ?? "synchronized")
      case .startTimer(let timer): start(timer)
      case .cancelTimer(let timer):
        if let id = timers.removeValue(forKey: timer) { services?.loop.cancel(id) }
      case .report(let problem): report(problem)
      }
    }
  }

  private var isPerforming = false
  /// Those that hold replies until what is being performed is done.
  private var holders: [CoordinatorLink] = []
  /// The event of the commit that is being performed.
  var committing: String?

  private func start(_ timer: CoordinatorStateMachine.Timer) {
    let delay =
      switch timer {
      case .votes: Self.voteTimeout
      case .resend: Self.resendInterval
      case .locks: Self.lockTimeout
      case .deadline(_, let limit): limit
      case .retry: Self.retryInterval
      case .patience: Self.patience
      case .join: Self.joinTimeout
      }
    if let id = timers[timer] { services?.loop.cancel(id) }
    timers[timer] = services?.loop.schedule(after: delay, for: self) { content in
      content.timers[timer] = nil
      content.perform(content.coordinator.fired(timer))
    }
  }

  // MARK: Callers

  /// Keeps what answers a caller, in place of what did when it last asked.
  func keep(_ id: RequestID, _ reply: @escaping (RequestReply) -> Void) { callers[id] = reply }

  /// A number for a caller that gives none.
  func unnamed() -> RequestID {
    lastUnnamed += 1
    return RequestID(caller: "unnamed.\(coordinator.epoch)", number: lastUnnamed)
  }

  private func answer(_ id: RequestID, _ reply: TransactionReply) {
    counts.requests += 1
    switch reply {
    case .atomic(let reply) where !reply.isCommitted: counts.refused += 1
    case .atomic, .broadcast: break
    }
    callers.removeValue(forKey: id)?(.synchronized(reply))
  }

  // MARK: States

  private func told(_ change: StateChange) {
    let name = change.node
    let isCommitting = coordinator.isCommitting(name)
    let changed = states?.told(
      name, incarnation: change.incarnation, version: change.version, state: change.state.bytes,
      isCommitting: isCommitting)
    show(changed ?? [], cause: name)
    perform(coordinator.told(name, version: change.version))
  }

  private func show(_ names: [String], cause: String) {
    for name in names {
      published[name] = (WallClock.nanoseconds, cause)
      services?.publish { entry(of: name) }
    }
  }

  private func entry(of composite: String) -> FeedEntry? {
    guard let states, let (time, cause) = published[composite],
      let state = states.state(of: composite)
    else { return nil }
    return FeedEntry(
      node: JSONValue.string(composite).bytes, version: states.version(of: composite), time: time,
      cause: cause, state: state)
  }

  private var names: [String] { plan?.conflictClass.composites.map(\.name) ?? [] }

  func lastSteps() -> [FeedEntry] { names.compactMap { entry(of: $0) } }

  func fill(_ status: inout NodeStatus) {
    guard isStarted, let states else { return }
    status.events = counts.requests
    status.refused = counts.refused
    letters.fill(&status)
    status.ins = pipes.map(\.status)
    status.garbage = links.values.reduce(0) { $0 + $1.garbage }
    status.synchronization = links.values.reduce(into: messages) { sum, link in
      sum.sent += link.messages.sent
      sum.received += link.messages.received
    }
    status.composites = names.map { name in
      NodeStatus.Composite(
        name: name, state: states.state(of: name).flatMap { try? JSONValue(parsing: $0) },
        version: states.version(of: name))
    }
  }
}
