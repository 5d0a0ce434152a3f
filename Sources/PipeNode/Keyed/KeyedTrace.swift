import PipeMachines
import PipeSupport
import PipeWire

/// Reports the steps of a keyed node's instances, as long as clients subscribe to them: each step
/// with the name of its instance, its event, the origin of the event, and the events that the step
/// has sent.
///
/// All instances of the node share the budget of the node's feed.
final class KeyedTrace<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let table: InstanceTable<Hosted>
  private let requests: MachineRequests<Hosted>
  private let pipes: MachinePipes<Hosted>
  private let outlets: MachineOutlets
  private let locks: InstanceLocks<Hosted>
  /// The name of the node, which begins the names of its instances.
  private let nodeName: String
  private var feedOutput: (feed: Feed, rateLimitedFeed: RateLimitedFeed)?
  /// The state before the step that is being reported, and the event of the step, as JSON.
  private var reportedStep: (from: [UInt8], event: [UInt8]?)?
  /// The events that the step has sent.
  private var sentEvents: [FeedBody] = []

  init(
    _ core: MachineCore<Hosted>, _ table: InstanceTable<Hosted>,
    _ requests: MachineRequests<Hosted>, _ pipes: MachinePipes<Hosted>, _ outlets: MachineOutlets,
    _ locks: InstanceLocks<Hosted>, nodeName: String
  ) {
    self.core = core
    self.table = table
    self.requests = requests
    self.pipes = pipes
    self.outlets = outlets
    self.locks = locks
    self.nodeName = nodeName
  }

  /// Starts to report each step to the feed; `nil` stops these reports.
  @export(interface)
  func reportSteps(to feed: Feed?, _ engines: InstanceEngines<Hosted>) {
    if (feed == nil) != (feedOutput == nil) {
      feedOutput = feed.map { ($0, rateLimitedFeed(to: $0)) }
      engines.isTraced = feedOutput != nil
    }
    // Also watches the pipes that were added since the last call.
    outlets.watch(feedOutput == nil ? nil : { [unowned self] in recordSentEvent($0, $1, $2, $3) })
  }

  @export(interface)
  private func rateLimitedFeed(to feed: Feed) -> RateLimitedFeed {
    RateLimitedFeed(.step, about: core.node, to: feed) { [unowned self, unowned feed] skipped in
      var body = reportHead(in: feed, version: table.version)
      body.add("skipped", skipped)
      return (table.version, body)
    }
  }

  /// Returns the beginning of a report about a step, or about skipped steps.
  private func reportHead(in feed: Feed, version: UInt64) -> FeedBody {
    feed.reportHead(of: core.node, version: version, index: table.stepCount)
  }

  /// Begins the report of a step that an instance is about to take. Returns `false` if the step is
  /// left out.
  func willTakeStep(on event: Hosted.Event?, from state: Hosted.State) -> Bool {
    guard let feedOutput, feedOutput.rateLimitedFeed.countItem() else { return false }
    reportedStep = (
      (try? core.states.encode(state)) ?? [], event.flatMap { try? core.events.encode($0) }
    )
    return true
  }

  private func recordSentEvent(
    _ pipe: String, _ stream: UInt64, _ number: UInt64, _ event: ArraySlice<UInt8>
  ) {
    guard reportedStep != nil else { return }
    var body = FeedBody(referringTo: pipe, stream, number)
    body.add("event", json: event)
    sentEvents.append(body)
  }

  /// Completes the report of a step that an instance has taken.
  @export(interface)
  func didTakeStep(of hosted: InstanceEngine<Hosted>) {
    guard let reportedStep, let feedOutput, let instance = hosted.instance else { return }
    var body = reportHead(in: feedOutput.feed, version: instance.version)
    body.add("instance", text: "\(nodeName)[\(instance.key)]")
    body.add("time", instance.time)
    body.add("cause", text: instance.cause)
    // A state that cannot be encoded is left out.
    if !reportedStep.from.isEmpty { body.add("from", json: reportedStep.from) }
    if let event = reportedStep.event { body.add("event", json: event) }
    if let state = try? core.states.encode(hosted.engine.state) { body.add("state", json: state) }
    if hosted.engine.trace.isInternal { body.add("entry", text: "internal") }
    addOrigin(of: instance, hosted, to: &body)
    body.add("sent", sentEvents)
    feedOutput.rateLimitedFeed.report(table.version, body)
    self.reportedStep = nil
    sentEvents.removeAll(keepingCapacity: true)
  }

  private func addOrigin(
    of instance: Instance<Hosted>, _ hosted: InstanceEngine<Hosted>, to body: inout FeedBody
  ) {
    if let (prepared, _) = locks.participant?.transaction(of: instance.key, in: nodeName) {
      body.add("transaction", text: "\(prepared.transaction)")
    } else if let (pipe, stream, number) = pipes.eventSource {
      body.add("source", FeedBody(referringTo: pipe, stream, number))
    } else if let request = requests.currentRequest {
      body.add("request", FeedBody(referringTo: request))
    } else if instance.cause == "effect" {
      body.add("effect", hosted.engine.trace.effectVersion)
    }
  }
}
