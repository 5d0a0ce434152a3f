import PipeJournal
import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// What a participant needs of the machine that takes part.
protocol ParticipatingMachine: AnyObject {
  /// Whether the machine would take the event now; nothing changes.
  func vote(on event: [UInt8]) -> ParticipantStateMachine.Vote
  /// Takes the step that was prepared: enters the state, which is recorded with all that follows.
  /// - Parameter isCommitted: Whether all participants take it.
  func enter(_ step: PreparedStep, isCommitted: Bool)
  /// Tells the state to a coordinator that has just come.
  func tellState()
  /// Whether an effect has not ended, and is not cancelled.
  func isRunning(effect: UInt64) -> Bool
  /// What an effect has raised is about to be taken, or was taken.
  func taken(_ raised: RaisedEvent)
  /// Whether it is in doubt has changed, in the same state.
  func inDoubtChanged()
}

/// A node's part in synchronized events: performs what ``ParticipantStateMachine`` decides.
///
/// The records are the node's: what is prepared, and the transaction whose step was taken, are written
/// with the state, and told to the coordinator after that.
final class Participant {
  /// The coordinator's routing id at the inbox.
  let peer: [UInt8]
  private var isStarted = false
  /// Whether the coordinator has connected to this process; what came before that was meant for the
  /// process before.
  private var isConnected = false
  /// Whether no other input may be taken.
  private(set) var isFrozen: Bool
  let configuration: NodeConfiguration.Participant
  private(set) var state: ParticipantStateMachine
  /// Whether it has asked for the end of what it has promised, and is not told.
  private(set) var isInDoubt: Bool
  /// When it promised, or when this process started. Unit: nanoseconds since 1970.
  private(set) var preparedAt = WallClock.nanoseconds
  unowned let machine: any ParticipatingMachine
  let services: NodeServices
  let log: NodeLog
  /// What the journal lacks, or what needs no record, in order.
  private var unrecorded: [ParticipantRecord] = []
  /// How many of these are durable as they are.
  private var durableCount = 0
  /// A promise that was given up, which the journal is told some time; and whether it has just been.
  private var aborted: (transaction: TransactionID, isWritten: Bool)?
  private var queryTimer: TimerQueue.ID?
  /// When the coordinator is to be asked for the end; `nil` where nothing is promised.
  private var queryDue: Int64?
  /// Whether the log says that the end of what is promised is not known.
  var hasToldInDoubt = false
  /// What effects wait for, by the numbers of the requests.
  var raised: [UInt64: RaisedEvent] = [:]
  /// How many events of effects were taken since the coordinator was told which ones still wait.
  var takenCount = 0
  /// What the transactions that are not applied yet are for.
  var committed: [TransactionID: RaisedEvent] = [:]
  private var toldVersion: UInt64
  /// What is taken and recorded, and is told with the next message, or soon.
  private var unacknowledged: [TransactionID] = []
  private var acknowledgementTimer: TimerQueue.ID?
  /// What has passed between the coordinator and this node.
  private(set) var messages = NodeStatus.Messages()

  /// How long a prepared participant waits for the end before it asks. Unit: nanoseconds.
  private static let queryInterval: Int64 = 200_000_000
  /// How late an acknowledgement may be: it travels with the next answer, and wakes nobody by itself.
  private static let acknowledgementDelay: Duration = .milliseconds(20)

  init(
    _ configuration: NodeConfiguration.Participant, machine: any ParticipatingMachine,
    restored: JournalContents.Participant?, version: UInt64, services: NodeServices,
    log: NodeLog
  ) {
    self.configuration = configuration
    peer = Array(WireName.coordinator(configuration.coordinator).utf8)
    state = ParticipantStateMachine(
      prepared: restored?.prepared, applied: restored?.applied ?? .zero, version: version)
    isFrozen = !state.takesInputs
    isInDoubt = state.isPrepared
    toldVersion = version
    self.machine = machine
    self.services = services
    self.log = log
  }

  /// The composites through which alone the event is taken; `nil` where it is not synchronized.
  func composites(of event: String) -> [String]? { configuration.events[event] }

  /// Why an event is not taken when it is sent to this node.
  func problem(withDirect event: String?) -> String? {
    guard let event, let composites = composites(of: event) else { return nil }
    let names = composites.map { "'\($0)'" }.joined(separator: " or ")
    return "'\(event)' is synchronized; send it to composite \(names)"
  }

  // MARK: The coordinator

  /// The machine runs; the coordinator may have come before.
  func started() {
    isStarted = true
    noteInDoubt(after: "a restart")
    perform(state.start())
    join()
  }

  /// The coordinator's connection is there, or there again.
  func connected() {
    isConnected = true
    // Else it joins when it does.
    guard isStarted else { return }
    noteInDoubt(after: "a lost connection")
    join()
    // A commit that the last coordinator told just before its end is not known to this one, where
    // nothing is recorded.
    machine.tellState()
  }

  private func join() {
    // Not counted: it belongs to the connection.
    let join = ParticipantJoin(
      watermark: state.watermark,
      prepared: state.isPrepared ? state.step?.transaction : nil)
    let frame = join.frame
    services.send(frame.header, frame.body, peer)
    for event in raised.values { send(event) }
    perform(state.connected())
  }

  /// Takes a frame of the coordinator's.
  func received(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer
  ) throws(FrameError) {
    guard isConnected else { return }
    messages.received += 1
    if header.kind == .reply { return try answered(header, body) }
    let message = try CoordinatorMessage(header, body)
    guard isStarted else { return }
    let machine = machine
    switch message {
    case .prepare(let transaction, let event, let wantsChange):
      guard finishTaking() else { return }
      reach(.prepareBefore)
      perform(
        state.prepare(transaction, event: event, wantsChange: wantsChange) {
          machine.vote(on: $0)
        })
    case .commit(let transaction):
      reach(.commitReceived)
      noteEnd(of: transaction, "committed")
      let isRepeated = transaction <= state.applied
      perform(state.commit(transaction))
      if isRepeated { acknowledge() }
    case .abort(let transaction):
      reach(.abortReceived)
      noteEnd(of: transaction, "given up")
      switch state.phase {
      case .preparing(let step), .prepared(let step):
        if step.transaction == transaction { aborted = (transaction, false) }
      case .free, .applying, .delivering: break
      }
      perform(state.abort(transaction))
    case .deliver(let transaction, let event):
      guard finishTaking() else { return }
      perform(state.deliver(transaction, event: event) { machine.vote(on: $0) })
    }
  }

  /// What comes behind a commit is about the state that the commit leads to; what the node has kept
  /// since it promised has its turn first.
  /// - Returns: `false` where the node has ended or stopped meanwhile.
  private func finishTaking() -> Bool {
    !state.isTaking || services.finishTurn() && isStarted
  }

  private func perform(_ actions: [ParticipantStateMachine.Action]) {
    isFrozen = !state.takesInputs
    let wasInDoubt = isInDoubt
    if !state.isPrepared { isInDoubt = false }
    for action in actions {
      switch action {
      case .record(let record):
        unrecorded.append(record)
        if case .prepared = record { preparedAt = WallClock.nanoseconds }
      case .enter(let transaction, let event, let move):
        let step = PreparedStep(transaction: transaction, event: event, move: move)
        if let event = committed.removeValue(forKey: transaction) { machine.taken(event) }
        machine.enter(step, isCommitted: state.phase == .applying(step))
      case .send(.ack(let transaction)):
        unacknowledged.append(transaction)
        scheduleAcknowledgement()
      case .send(let message):
        send(message)
        switch message {
        case .yes: reach(.yesAfter)
        case .no: reach(.noAfter)
        case .query:
          isInDoubt = true
          reach(.querySent)
        case .ack, .delivered, .changed: break
        }
      // They are taken in the next turn.
      case .unfreeze: break
      case .startQueryTimer: startQueryTimer()
      case .stopQueryTimer: queryDue = nil
      case .report(let problem): report(problem)
      }
    }
    // A step that ends it tells of itself.
    if wasInDoubt != isInDoubt, state.isPrepared || state.takesInputs {
      machine.inDoubtChanged()
    }
  }

  func send(_ message: ParticipantMessage) {
    let frame = message.frame
    send(frame.header, frame.body)
  }

  func send(_ header: FrameHeader, _ body: [UInt8]) {
    acknowledge()
    messages.sent += 1
    services.send(header, body, peer)
  }

  /// Tells the coordinator what was taken.
  private func acknowledge() {
    guard !unacknowledged.isEmpty else { return }
    let transactions = unacknowledged
    unacknowledged = []
    for transaction in transactions {
      send(ParticipantMessage.ack(transaction))
      reach(.acknowledgeAfter)
    }
  }

  private func scheduleAcknowledgement() {
    guard acknowledgementTimer == nil else { return }
    acknowledgementTimer = services.loop.schedule(after: Self.acknowledgementDelay, for: self) {
      $0.acknowledgementTimer = nil
      $0.acknowledge()
    }
  }

  private func startQueryTimer() {
    queryDue = BootClock.nanoseconds + Self.queryInterval
    scheduleQueryTimer(after: Self.queryInterval)
  }

  /// The timer runs on when the query is not due any more: that is more often than not, and so is the
  /// next promise.
  private func scheduleQueryTimer(after nanoseconds: Int64) {
    guard queryTimer == nil else { return }
    queryTimer = services.loop.schedule(after: .nanoseconds(nanoseconds), for: self) {
      $0.queryTimerFired()
    }
  }

  private func queryTimerFired() {
    queryTimer = nil
    guard let queryDue else { return }
    let left = queryDue - BootClock.nanoseconds
    guard left <= 0 else { return scheduleQueryTimer(after: left) }
    self.queryDue = nil
    noteInDoubt(after: "a silence of \(Duration.nanoseconds(Self.queryInterval).shortText)")
    perform(state.queryTimerFired())
  }

  /// The node stops.
  func stop() {
    acknowledge()
    isStarted = false
    if let acknowledgementTimer { services.loop.cancel(acknowledgementTimer) }
    acknowledgementTimer = nil
    if let queryTimer { services.loop.cancel(queryTimer) }
    queryTimer = nil
    queryDue = nil
    for event in raised.values { event.reply.resume(false) }
    for event in committed.values { event.reply.resume(false) }
    raised = [:]
    committed = [:]
  }

  // MARK: Records

  var hasUnrecorded: Bool { unrecorded.count > durableCount }

  /// Makes promises durable that need no record for that.
  func markPrepared(in journal: Journal) {
    while durableCount < unrecorded.count,
      case .prepared(let step) = unrecorded[durableCount], journal.markPrepared(step)
    { durableCount += 1 }
  }

  /// Whether the journal has a promise that was given up: no harm, but for who reads it.
  var hasAborted: Bool { aborted != nil }

  func record(into journal: Journal) throws {
    for record in unrecorded[durableCount...] {
      switch record {
      case .prepared(let step): try journal.prepared(step)
      case .step(let step): try journal.applied(step.transaction)
      }
    }
    if let transaction = aborted?.transaction {
      try journal.aborted(transaction)
      aborted?.isWritten = true
    }
  }

  /// What was taken is recorded, or needs no record.
  /// - Parameter version: The count of the machine's steps.
  func becameRecorded(version: UInt64) {
    let records = unrecorded
    unrecorded = []
    durableCount = 0
    if aborted?.isWritten == true { aborted = nil }
    for record in records {
      switch record {
      case .prepared: reach(.prepareRecorded)
      case .step(let step):
        reach(.stepRecorded)
        // Not a step of its own: those who wait for a change are told by the coordinator.
        if step.move.version == version { toldVersion = version }
      }
      perform(state.recorded(record))
    }
    if !raised.isEmpty { withdraw() }
    guard version != toldVersion else { return }
    toldVersion = version
    perform(state.stepped())
  }
}
