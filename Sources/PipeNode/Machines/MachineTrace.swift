import PipeMachines
import PipeSupport
import PipeWire

/// Traces the steps of a machine on demand: counts its transitions, and reports each step with its
/// event, the origin of the event, and the events that the step sent.
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
  private var output: (feed: Feed, rateLimitedFeed: RateLimitedFeed)?
  /// The state before the step that is being reported, and its event, as JSON.
  private var step: (from: [UInt8], event: [UInt8]?)?
  /// The events that this step has sent.
  private var sent: [FeedBody] = []

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
    stateNames = Self.names(of: Hosted.State.self)
    eventNames = Self.names(of: Hosted.Event.self)
  }

  deinit { stopCounting() }

  private static func names<Value>(of type: Value.Type) -> [String] {
    let names = EnumCases<Value>.names
    return names.isEmpty ? [TransitionCounts.anyCase] : names
  }

  // MARK: Transitions

  @export(interface)
  func count(_ isEnabled: Bool) {
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
      result.counts[stateNames[state], default: [:]][eventNames[event]] = count
    }
    return result
  }

  // MARK: Steps

  @export(interface)
  func reportSteps(to feed: Feed?) {
    if (feed == nil) != (output == nil) {
      output = feed.map { ($0, rateLimitedFeed(to: $0)) }
      // Safe: the content owns both, and the engine makes no calls once the content is gone.
      core.engine.trace.willTakeStep =
        output == nil ? nil : { [unowned(unsafe) self] in willTakeStep(on: $0, from: $1) }
    }
    // This includes pipes that were added since the last call.
    outlets.watch(output == nil ? nil : { [unowned self] in recordSentEvent($0, $1, $2, $3) })
  }

  @export(interface)
  private func rateLimitedFeed(to feed: Feed) -> RateLimitedFeed {
    RateLimitedFeed(.step, about: core.node, to: feed) { [unowned self, unowned feed] skipped in
      var body = head(in: feed)
      body.add("skipped", skipped)
      return (core.engine.settledVersion, body)
    }
  }

  /// Returns the head of a message about a step, or about steps that are left out.
  private func head(in feed: Feed) -> FeedBody {
    feed.head(of: core.node, version: core.engine.settledVersion, index: steps.count)
  }

  /// Begins the report of a step that is about to be taken. Returns whether the step is reported.
  func willTakeStep(on event: Hosted.Event?, from state: Hosted.State) -> Bool {
    guard let output, output.rateLimitedFeed.begin() else { return false }
    step = (
      (try? core.encode(state, version: core.engine.settledVersion)) ?? [],
      event.flatMap { try? core.events.encode($0) }
    )
    return true
  }

  private func recordSentEvent(
    _ pipe: String, _ stream: UInt64, _ number: UInt64, _ event: ArraySlice<UInt8>
  ) {
    guard step != nil else { return }
    var body = Self.makeEventReference(pipe, stream, number)
    body.add("event", json: event)
    sent.append(body)
  }

  /// Reports the step, which has been taken.
  @export(interface)
  func didTakeStep() {
    guard let step, let output else { return }
    var body = head(in: output.feed)
    body.add("time", steps.shown.time)
    body.add("cause", text: steps.shown.cause)
    // A state that cannot be encoded is left out.
    if !step.from.isEmpty { body.add("from", json: step.from) }
    if let event = step.event { body.add("event", json: event) }
    let state = core.stateBytes
    if !state.isEmpty { body.add("state", json: state) }
    addOrigin(to: &body)
    body.add("sent", sent)
    output.rateLimitedFeed.report(core.engine.version, body)
    self.step = nil
    sent.removeAll(keepingCapacity: true)
  }

  private func addOrigin(to body: inout FeedBody) {
    if let transaction = machineParticipant.transaction {
      body.add("transaction", text: "\(transaction)")
    } else if let (pipe, stream, number) = pipes.source {
      body.add("source", Self.makeEventReference(pipe, stream, number))
    } else if let request = requests.current {
      var key = FeedBody()
      key.add("client", request.client)
      key.add("number", request.id)
      body.add("request", key)
    } else if steps.shown.cause == "effect" {
      body.add("effect", core.engine.trace.effectVersion)
    }
  }

  private static func makeEventReference(_ pipe: String, _ stream: UInt64, _ number: UInt64)
    -> FeedBody
  {
    var body = FeedBody()
    body.add("pipe", text: pipe)
    body.add("stream", stream)
    body.add("number", number)
    return body
  }
}
