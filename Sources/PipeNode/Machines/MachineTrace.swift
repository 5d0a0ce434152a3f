import PipeMachines
import PipeSupport
import PipeWire

/// Traces the steps of a machine, as long as clients subscribe to them. Counts the transitions.
/// Reports each step with its event, the origin of the event, and the events that the step has
/// sent.
final class MachineTrace<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let steps: MachineSteps<Hosted>
  private let requests: MachineRequests<Hosted>
  private let pipes: MachinePipes<Hosted>
  private let machineParticipant: MachineParticipant<Hosted>
  private let outlets: MachineOutlets
  private var countedSince: UInt64 = 0
  private let stateNames: [String]
  private let eventNames: [String]
  private var feedOutput: (feed: Feed, rateLimitedFeed: RateLimitedFeed)?
  /// The log of a recorded run; `nil` if the run is not recorded.
  private(set) var stepLog: MachineStepLog<Hosted>?
  /// The state before the step that is being reported to the feed, and the event of the step, as
  /// JSON.
  private var reportedStep: (from: [UInt8], event: [UInt8]?)?
  /// The events that this step has sent so far.
  private var sentEvents: [FeedBody] = []

  @export(interface)
  init(
    _ core: MachineCore<Hosted>, _ steps: MachineSteps<Hosted>, _ requests: MachineRequests<Hosted>,
    _ pipes: MachinePipes<Hosted>, _ machineParticipant: MachineParticipant<Hosted>,
    _ outlets: MachineOutlets
  ) {
    self.core = core
    self.steps = steps
    self.requests = requests
    self.pipes = pipes
    self.machineParticipant = machineParticipant
    self.outlets = outlets
    stateNames = Self.caseNames(of: Hosted.State.self)
    eventNames = Self.caseNames(of: Hosted.Event.self)
  }

  deinit { stopCounting() }

  private static func caseNames<Value>(of type: Value.Type) -> [String] {
    let names = EnumCases<Value>.names
    return names.isEmpty ? [TransitionCounts.anyCase] : names
  }

  // MARK: Counting transitions

  @export(interface)
  func setCounting(_ isEnabled: Bool) {
    guard isEnabled != (core.engine.trace.tally != nil) else { return }
    countedSince = core.engine.version
    stopCounting()
    if isEnabled { core.engine.trace.tally = TransitionTally() }
  }

  private func stopCounting() {
    core.engine.trace.tally.take()?.deallocate()
  }

  @export(interface)
  var transitions: TransitionCounts? {
    guard let tally = core.engine.trace.tally else { return nil }
    var result = TransitionCounts(since: countedSince)
    tally.forEach { state, event, count in
      let name = event.map { eventNames[$0] } ?? TransitionCounts.timerEventName
      result.counts[stateNames[state], default: [:]][name] = count
    }
    return result
  }

  // MARK: Reporting steps

  @export(interface)
  func reportSteps(to feed: Feed?) {
    if (feed == nil) != (feedOutput == nil) {
      feedOutput = feed.map { ($0, rateLimitedFeed(to: $0)) }
    }
    observeSteps()
  }

  /// Writes each step, and each event that the machine ignores, to a log.
  @export(interface)
  func logSteps(in log: StepLog) {
    let stepLog = MachineStepLog(in: log, core, steps, requests, pipes, machineParticipant)
    self.stepLog = stepLog
    core.engine.trace.didIgnore = { [unowned stepLog] in stepLog.logIgnored($0) }
    observeSteps()
  }

  private func observeSteps() {
    let isObserved = feedOutput != nil || stepLog != nil
    if isObserved != (core.engine.trace.willTakeStep != nil) {
      // Safe: the content owns this object and the engine, and the engine makes no calls once the
      // content is gone.
      core.engine.trace.willTakeStep =
        isObserved ? { [unowned(unsafe) self] in willTakeStep(on: $0, from: $1) } : nil
    }
    // Also watches the pipes that were added since the last call.
    outlets.watch(isObserved ? { [unowned self] in recordSentEvent($0, $1, $2, $3) } : nil)
  }

  @export(interface)
  private func rateLimitedFeed(to feed: Feed) -> RateLimitedFeed {
    RateLimitedFeed(.step, about: core.node, to: feed) { [unowned self, unowned feed] skipped in
      var body = reportHead(in: feed)
      body.add("skipped", skipped)
      return (core.engine.settledVersion, body)
    }
  }

  /// Returns the beginning of a report about a step, or about skipped steps.
  private func reportHead(in feed: Feed) -> FeedBody {
    feed.reportHead(of: core.node, version: core.engine.settledVersion, index: steps.stepCount)
  }

  /// Begins the report of a step that the machine is about to take. Returns `false` if the step is
  /// left out.
  func willTakeStep(on event: Hosted.Event?, from state: Hosted.State) -> Bool {
    stepLog?.willTakeStep(on: event)
    guard feedOutput?.rateLimitedFeed.countItem() == true else { return stepLog != nil }
    reportedStep = (
      (try? core.encode(state, version: core.engine.settledVersion)) ?? [],
      event.flatMap { try? core.events.encode($0) }
    )
    return true
  }

  private func recordSentEvent(
    _ pipe: String, _ stream: UInt64, _ number: UInt64, _ event: ArraySlice<UInt8>
  ) {
    stepLog?.recordSentEvent(pipe, stream, number, event)
    guard reportedStep != nil else { return }
    var body = FeedBody(referringTo: pipe, stream, number)
    body.add("event", json: event)
    sentEvents.append(body)
  }

  /// Completes the report of a step that the machine has taken.
  @export(interface)
  func didTakeStep() {
    stepLog?.didTakeStep()
    guard let reportedStep, let (feed, rateLimitedFeed) = feedOutput else { return }
    var body = reportHead(in: feed)
    body.add("time", steps.publishedStep.time)
    body.add("cause", text: steps.publishedStep.cause)
    // A state that could not be encoded is omitted.
    if !reportedStep.from.isEmpty { body.add("from", json: reportedStep.from) }
    if let event = reportedStep.event { body.add("event", json: event) }
    let state = core.stateBytes
    if !state.isEmpty { body.add("state", json: state) }
    if core.engine.trace.isInternal { body.add("entry", text: "internal") }
    addOrigin(to: &body)
    body.add("sent", sentEvents)
    rateLimitedFeed.report(core.engine.version, body)
    self.reportedStep = nil
    sentEvents.removeAll(keepingCapacity: true)
  }

  private func addOrigin(to body: inout FeedBody) {
    if let transaction = machineParticipant.currentTransaction {
      body.add("transaction", text: "\(transaction)")
    } else if let (pipe, stream, number) = pipes.eventSource {
      body.add("source", FeedBody(referringTo: pipe, stream, number))
    } else if let request = requests.currentRequest {
      body.add("request", FeedBody(referringTo: request))
    } else if steps.publishedStep.cause == "effect" {
      body.add("effect", core.engine.trace.effectVersion)
    }
  }
}

extension FeedBody {
  /// Makes the reference to an event in a pipe.
  init(referringTo pipe: String, _ stream: UInt64, _ number: UInt64) {
    self.init()
    add("pipe", text: pipe)
    add("stream", stream)
    add("number", number)
  }

  /// Makes the reference to a client's request.
  init(referringTo request: RequestKey) {
    self.init()
    add("client", request.client)
    add("number", request.id)
  }
}
