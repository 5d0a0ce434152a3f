import PipeJournal
import PipeMachines
import PipeSupport
import PipeSystem
import PipeTransport
import PipeWire

/// The content of a node that coordinates the composites of one conflict class. Performs the
/// decisions of ``CoordinatorStateMachine``, and publishes the states of the composites.
final class CoordinatorContent: PipedContent, StatePublishingContent, JournaledContent,
  DeadLetteringContent,
  ExplainableContent, CoordinatingContent, SelfEndingContent, GateableContent,
  CoordinatorLinksOwner
{
  /// The name that replaces the name of a machine in the journal and in the description.
  static let machineName = JournalSnapshot.compositeMachine

  let description: MachineDescription
  var onEnd: ((String?) -> Void)?
  private let log: NodeLog
  private let node: String
  private let journal: Journal?
  private let projections: CompositeFeed.Projections
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var coordinator: CoordinatorStateMachine
  private var records: CoordinatorRecords
  @exclusivity(unchecked)
  private var requesters = CoordinatorRequesters()
  private lazy var pipes = CoordinatorPipes(
    of: self, deadLetters: DeadLetters(journal: journal), log: log)
  /// The rules of pipes that start at composites; `nil` if there are no such pipes.
  private var rules: CoordinatorRules?
  private var outs: [(NodeConfiguration.Out, OutPipe)] = []
  private var ins: [InPipe] = []
  /// The outbound pipes of a gated coordinator; `nil` if the coordinator is not gated.
  private var gatedOuts: [OutPipe]?
  @exclusivity(unchecked)
  private var services: NodeServices?
  private var plan: CoordinatorPlan?
  /// The composites, by name.
  private var compositesByName: [String: CompositePlan] = [:]
  private var feed: CompositeFeed?
  private var peerFeeds: PeerFeeds?
  @exclusivity(unchecked)
  private var links: CoordinatorLinks?
  @exclusivity(unchecked)
  private var timers: CoordinatorTimers?
  @exclusivity(unchecked)
  private var isStarted = false
  /// The name of the event whose commit is being performed; `nil` if there is none.
  @exclusivity(unchecked)
  private var committingEvent: String?
  /// The requester id under which the current process of each participant announces events, by the
  /// participant's name.
  private var announcerIDsByParticipant: [String: String] = [:]
  /// The number of messages that were exchanged with requesters at the inbox.
  @exclusivity(unchecked)
  private var messages = NodeStatus.Messages()

  /// - Parameter incarnation: The incarnation of the node. No other process of the node has the
  ///   same number.
  init(
    node: String, incarnation: UInt64, journal: Journal?, projections: CompositeFeed.Projections,
    log: NodeLog
  ) throws(JournalError) {
    self.node = node
    self.journal = journal
    self.projections = projections
    self.log = log
    records = try CoordinatorRecords(journal, incarnation: incarnation)
    coordinator = CoordinatorStateMachine(name: node, journal: records.restored)
    description = MachineDescription(machine: Self.machineName)
  }

  // MARK: Connections to pipes and services

  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    (self.outs, self.ins) = (outs, ins)
    let names = outs.map(\.1.name)
    for (name, sent) in journal?.contents?.outPipeProgressByPipe ?? [:]
    where !sent.events.isEmpty && !names.contains(name) {
      log.warning(
        "pipe '\(name)' no longer starts at this node; \(sent.events.count) undelivered events "
          + "stay in the journal")
    }
  }

  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {
    guard let plan = configuration.plan else {
      throw NodeSetupError(
        "the orchestrator did not send the composites that the node must coordinate")
    }
    self.services = services
    self.plan = plan
    let planned = plan.conflictClass.composites
    defer { journal?.forgetContents() }
    // The first use of `pipes` creates the object, which loads dead letters from the journal.
    pipes.connect(ins.filter { plan.compositesByPipe[$0.name] != nil })
    takeOver(from: planned)
    let recorded = try journal?.components() ?? [:]
    rules = try CoordinatorRules(
      outs: outs, ins: ins, plan,
      projections: try CompositeFeed.usedProjections(projections, by: planned),
      recorded: recorded, consumed: journal?.contents?.inPipeProgressByPipe ?? [:], log: log)
    for name in rules?.nodes ?? [] { updateStepReports(by: name) }
    records.remove(nodes: recorded.keys.filter { rules?.nodes.contains($0) != true })
    if configuration.isGated == true {
      gatedOuts = outs.map(\.1)
      pipes.gate()
    }
    (outs, ins) = ([], [])
    compositesByName = Dictionary(planned.map { ($0.name, $0) }) { first, _ in first }
    let recovered = records.takeRestored()
    feed = try CompositeFeed(planned, projections: projections, commits: recovered)
    timers = CoordinatorTimers(loop: services.loop) { [weak self] timer in
      guard let self else { return }
      perform(coordinator.fired(timer))
    }
    guard !recovered.isEmpty else { return }
    log.note(
      "\(recovered.count) synchronized events are committed, but not acknowledged by all "
        + "participants; the commits are sent again")
  }

  /// Takes over from the former coordinators of `composites`. The unsent events of the former
  /// coordinators are lost; this function counts and logs these events.
  private func takeOver(from composites: [CompositePlan]) {
    guard let journal else { return }
    for former in FormerCoordinator.all(
      of: composites, coordinatedBy: node, beside: journal, log: log)
    {
      do {
        for (name, count) in try former.dispose(to: outs.map(\.0), log: log) {
          outs.first { $0.1.name == name }?.1.addLost(count)
        }
      } catch {
        log.warning("the unsent events of process '\(former.name)' cannot be read: \(error)")
      }
    }
  }

  func start() {
    guard let services, let plan else { return }
    isStarted = true
    perform(coordinator.start())
    let participants = Set(plan.conflictClass.participants)
    coordinator.expect(participants)
    dropFormerParticipants(except: participants)
    do {
      links = try CoordinatorLinks(
        to: plan.components.filter { participants.contains($0.name) }, of: node,
        journal: journal?.stream, services: services, log: log, owner: self)
      peerFeeds = try PeerFeeds(of: plan.components, services: services, log: log) { [weak self] in
        self?.reported($0)
      }
    } catch {
      onEnd?("cannot connect to the participants: \(error)")
    }
  }

  /// Aborts undecided transactions. Committed transactions continue until all participants have
  /// acknowledged them.
  func prepareToStop() { perform(coordinator.stop()) }

  var mayStop: Bool { coordinator.transactionsInProgress.isEmpty }

  func stop() {
    guard isStarted else { return }
    isStarted = false
    perform(coordinator.stop())
    timers?.cancelAll()
    peerFeeds?.close()
    peerFeeds = nil
    links?.close()
    links = nil
  }

  // MARK: Messages from participants

  func received(_ message: ParticipantMessage, from participant: String) {
    if case .query = message { hitFailpoint(.queryReceived, with: participant) }
    perform(coordinator.received(message, from: participant))
  }

  func changed(_ join: ParticipantJoin?, of participant: String) {
    perform(
      join.map { coordinator.joined(participant, $0) } ?? coordinator.disconnected(participant))
  }

  // MARK: Performing the coordinator's decisions

  private func perform(_ actions: [CoordinatorStateMachine.Action]) {
    guard let links else { return actions.forEach(perform) }
    links.batch { actions.forEach(perform) }
  }

  private func perform(_ action: CoordinatorStateMachine.Action) {
    switch action {
    case .record(let record): records.append(record)
    case .acknowledged(let transaction):
      records.acknowledge(transaction)
      hitFailpoint(.commitFinished)
      for name in feed?.takeUnconfirmed({ coordinator.isCommitting($0) }) ?? [] {
        peerFeeds?.requestLastValue(name)
      }
    case .forget(let transaction): records.forget(transaction)
    case .forgetRequests(let last): records.forgetRequests(through: last)
    case .send(let message, let participant): send(message, to: participant)
    case .reply(let id, let reply): requesters.take(id, for: reply)?(.synchronized(reply))
    case .replyForgotten(let id, let last): requesters.take(id)?(.forgotten(through: last))
    case .publish(let transaction, let moves):
      publish(feed?.committed(moves, transaction, event: committingEvent))
    case .startTimer(let timer): timers?.start(timer, coordinator.evaluationLimit(of: timer))
    case .cancelTimer(let timer): timers?.cancel(timer)
    case .report(let conflict): log.warning(conflict.warning)
    case .refuse(let mismatch): refuse(mismatch)
    }
  }

  /// Ends the node before it makes any decision, because this journal lacks records. Records the
  /// reason in the journal, so that the next process fails immediately.
  private func refuse(_ mismatch: JournalMismatch) {
    let reason = mismatch.reason
    do {
      onEnd?("\(try journal?.refuse(because: reason).description ?? reason)")
    } catch {
      onEnd?(
        "the journal cannot be used: \(reason); this error cannot be recorded in the journal: "
          + "\(error)")
    }
  }

  private func send(_ message: CoordinatorMessage, to participant: String) {
    if case .abort = message { hitFailpoint(.abortBefore, with: participant) }
    links?.send(message, to: participant)
    switch message {
    case .prepare: hitFailpoint(.prepareSent, with: participant)
    case .commit: hitFailpoint(.commitSent, with: participant)
    case .abort: hitFailpoint(.abortSent, with: participant)
    case .deliver: break
    }
  }

  /// Stops waiting for participants that no longer belong to any of the composites, since they will
  /// not answer.
  private func dropFormerParticipants(except participants: Set<String>) {
    for transaction in coordinator.transactionsInProgress {
      for formerParticipant in transaction.participants
      where !participants.contains(InstanceName.node(of: formerParticipant)) {
        log.warning(
          "synchronized event \(transaction.id) was committed, but '\(formerParticipant)' has not acknowledged "
            + "the commit; '\(formerParticipant)' is no longer a participant, and the coordinator stops "
            + "waiting")
        perform(coordinator.received(.ack(transaction.id), from: formerParticipant))
      }
    }
  }

  /// Reports that the coordinator has reached a failpoint. Cuts its connections if the failpoint
  /// requires that.
  /// - Parameter participant: The participant that the failpoint concerns; `nil` for all
  ///   participants.
  private func hitFailpoint(_ point: Failpoint, with participant: String? = nil) {
    if Failpoint.hit(point) { links?.cut(to: participant) }
  }

  private func reported(_ change: StateChange) {
    publish(feed?.reported(change, isCommitting: coordinator.isCommitting(change.node)))
    perform(coordinator.reported(change.node, version: change.version))
  }

  private func publish(_ composites: [String]?) {
    for name in composites ?? [] { services?.publish { feed?.entry(of: name) } }
  }

  // MARK: Requests of callers

  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, reply: @escaping Reply
  ) {
    if !SynchronizeFlag.isAcknowledgement(header) { messages.received += 1 }
    take(header, body, of: nil) { [weak self] answer in
      self?.messages.sent += 1
      reply(answer)
    }
  }

  /// Handles a request from a requester.
  /// - Parameter participant: The participant whose effect has made the request; `nil` if the
  ///   request has arrived at the inbox.
  func take(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, of participant: String?,
    reply: @escaping Reply
  ) {
    let id: RequestID
    if header.incarnationOrSession == 0 {
      id = requesters.unnamed(in: coordinator.epoch)
    } else if let participant {
      id = RequestID(scope: header.incarnationOrSession, number: header.sequence)
      if id.isAnnounced { recordAnnouncer(participant, as: id.caller) }
    } else {
      id = RequestID(client: header.incarnationOrSession, number: header.sequence)
    }
    switch SynchronizeFlag(rawValue: header.flags) {
    case .try: ask(Array(body), .try, as: id, reply: reply)
    case .await:
      let limit: Duration? = header.count == 0 ? nil : .milliseconds(Int64(header.count))
      ask(Array(body), .await(limit), as: id, of: participant, reply: reply)
    case .broadcast: ask(Array(body), .broadcast, as: id, reply: reply)
    case .ask:
      guard let transaction = TransactionID(String(decoding: body, as: UTF8.self)) else {
        return reply(.invalid("invalid transaction number; the expected form is 3.17"))
      }
      requesters.keep(id, reply)
      perform(coordinator.ask(id, for: transaction))
    case .withdraw: perform(coordinator.withdraw(id))
    case .acknowledge: coordinator.acknowledge(id.caller, before: id.number)
    case nil: reply(.invalid("unknown mode \(header.flags)"))
    }
  }

  /// Notes the requester id of a participant's current process. If the participant has a new
  /// process, acknowledges all requests of the former process, because these are never repeated.
  /// Each process numbers its announcements itself.
  private func recordAnnouncer(_ participant: String, as caller: String) {
    let former = announcerIDsByParticipant.updateValue(caller, forKey: participant)
    if let former, former != caller { coordinator.acknowledge(former, before: .max) }
  }

  private func ask(
    _ body: [UInt8], _ mode: TransactionMode, as id: RequestID, of participant: String? = nil,
    reply: @escaping Reply
  ) {
    hitFailpoint(.synchronizeReceived)
    do {
      var request = try TransactionRequest(reading: body, mode, to: compositesByName)
      request.emitter = participant.map { ($0, UInt32(truncatingIfNeeded: id.number)) }
      requesters.keep(id, of: request.composite, reply)
      perform(coordinator.request(id, request))
    } catch {
      reply(.invalid("\(error)"))
    }
  }

  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply) {
    reply(.explained(by: coordinator.explanation))
  }

  func gate(_ request: GateRequest, reply: @escaping Reply) {
    guard let gatedOuts else { return reply(.invalid("the node is not gated")) }
    func report(_ outcome: GateReport.Outcome?) -> RequestReply {
      .gated(
        by: GateReport(outcome, ins: pipes.gateReports, outs: gatedOuts.map(\.gateReport)))
    }
    switch request {
    case .look: reply(report(nil))
    case .takePipe(let pipe, let number):
      pipes.permit(number, of: pipe) { reply(report($0)) }
    case .evaluate, .takeOutside, .takeEffect, .endEffect, .fireTimer:
      reply(.invalid("a coordinator takes only events of pipes through its gate"))
    }
  }

  // MARK: Events and step reports from pipes

  /// Requests a synchronized event on behalf of the pipe that has delivered the event.
  /// - Parameter id: The id of the request; `nil` if the request will not be repeated. A request
  ///   with an id also acknowledges the answers to all earlier requests of the pipe.
  func ask(
    _ event: [UInt8], through pipe: String, _ mode: TransactionMode, as id: RequestID?,
    _ reply: @escaping Reply
  ) {
    if let id { coordinator.acknowledge(id.caller, before: id.number) }
    ask(
      TransactionBody(composite: plan?.compositesByPipe[pipe] ?? "", event: event).bytes, mode,
      as: id ?? requesters.unnamed(in: coordinator.epoch), reply: reply)
  }

  /// Allows another attempt at the request with this id.
  func allowRetry(_ id: RequestID) { coordinator.allowRetry(id) }

  func schedule(after delay: Duration, _ action: @escaping () -> Void) {
    services?.loop.schedule(after: delay, for: self) { _ in action() }
  }

  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) {
    let isReport = try rules?.accept(events, from: pipe) {
      coordinator.lastTransaction(beforeStartOf: $0)
    }
    if isReport == true { return }
    try pipes.accept(events, from: pipe)
  }

  var hasWork: Bool { isStarted && (pipes.hasWork || rules?.hasWork == true) }

  func takeTurn() {
    guard isStarted else { return }
    pipes.takeTurn()
    guard let rules else { return }
    rules.takeTurn(
      participants: { coordinator.participants(of: $0) }, last: coordinator.lastTransaction)
    for name in rules.changedNodes { updateStepReports(by: name) }
    scheduleWaitCheck()
  }

  /// Notes how far the step reports of a node are complete. The record of a commit is required
  /// until all its participants have reported their steps.
  private func updateStepReports(by node: String) {
    guard let rules else { return }
    coordinator.noteStepReports(by: node, through: rules.completeThrough(of: node))
  }

  /// Schedules a check of steps that wait for reports from other nodes, unless no step waits or a
  /// check is already scheduled.
  private func scheduleWaitCheck() {
    guard let rules, rules.needsWaitCheck else { return }
    rules.beginWaitCheck()
    schedule(after: StepWaits.interval) { [weak self] in
      guard let self, isStarted else { return }
      rules.checkWaits { self.coordinator.participants(of: $0) }
      scheduleWaitCheck()
    }
  }

  func resolveDeadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    pipes.resolveDeadLetter(id, drops: drops, reply: reply)
  }

  // MARK: Recording the turn

  var hasUnrecordedChanges: Bool {
    records.hasUnrecordedChanges || pipes.hasUnrecordedChanges
      || rules?.hasUnrecordedChanges == true
  }

  var hasObsoleteRecords: Bool { records.hasObsoleteRecords }

  func record(into journal: Journal) throws {
    try records.write(to: journal) { hitFailpoint($0) }
    try pipes.record(into: journal)
    try rules?.record(into: journal)
  }

  func didRecord() {
    pipes.didRecord()
    rules?.didRecord()
    for record in records.takeRecorded() {
      if case .commit(let commit) = record {
        hitFailpoint(.commitRecorded)
        committingEvent = coordinator.event(of: commit.request)
      }
      perform(coordinator.recorded(record))
      committingEvent = nil
    }
  }

  // MARK: Published states

  func lastSteps() -> [PublishedState] { feed?.entries ?? [] }

  func fill(_ status: inout NodeStatus) {
    guard isStarted, let feed, let links else { return }
    status.events = requesters.answeredCount
    status.refused = requesters.refusedCount
    pipes.fill(&status)
    rules?.fill(&status)
    status.invalidFrames = links.invalidFrames
    var messages = messages
    messages.sent += links.messages.sent
    messages.received += links.messages.received
    status.synchronization = messages
    status.composites = feed.status(requesters.requestCountsByComposite)
  }
}
