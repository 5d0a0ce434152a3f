import PipeMachines
import PipeSupport
import PipeWire

/// An event that a machine has refused for good, or that a pipe has postponed.
struct RefusedInput {
  /// The pipe or the request that the event came from.
  enum Origin {
    case pipe(String, stream: UInt64, number: UInt64)
    case request(RequestKey)
  }

  /// The event as JSON, or as a JSON string if the event could not be decoded.
  let event: JSONValue
  let reason: String
  let origin: Origin
  /// Whether the event is postponed, so that the machine tries it again after the next step.
  let isPostponed: Bool
  /// Whether the event is dropped because of `on_refused: ignore`.
  let isDropped: Bool

  init(
    _ event: JSONValue, because reason: String, from origin: Origin, isPostponed: Bool = false,
    isDropped: Bool = false
  ) {
    self.isDropped = isDropped
    self.event = event
    self.reason = reason
    self.origin = origin
    self.isPostponed = isPostponed
  }
}

/// Reports the events that a machine refuses or postpones, as long as a client subscribes to them.
final class MachineRefusals<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let steps: MachineSteps<Hosted>
  private var feedOutput: (feed: Feed, rateLimitedFeed: RateLimitedFeed)?
  /// The log of a recorded run; `nil` if the run is not recorded.
  private var stepLog: MachineStepLog<Hosted>?

  @export(interface)
  init(_ core: MachineCore<Hosted>, _ steps: MachineSteps<Hosted>) {
    self.core = core
    self.steps = steps
  }

  @export(interface)
  func report(to feed: Feed?) {
    guard (feed == nil) != (feedOutput == nil) else { return }
    feedOutput = feed.map { ($0, rateLimitedFeed(to: $0)) }
    observeRefusals()
  }

  /// Writes each refused or postponed event to a log.
  @export(interface)
  func logRefusals(in stepLog: MachineStepLog<Hosted>?) {
    self.stepLog = stepLog
    observeRefusals()
  }

  private func observeRefusals() {
    let isObserved = feedOutput != nil || stepLog != nil
    core.onRefusal = isObserved ? { [unowned self] in report($0) } : nil
  }

  private func rateLimitedFeed(to feed: Feed) -> RateLimitedFeed {
    RateLimitedFeed(.refusal, about: core.node, to: feed) { [unowned self, unowned feed] skipped in
      var body = reportHead(in: feed)
      body.add("refused", text: "")
      body.add("skipped", skipped)
      return (core.engine.settledVersion, body)
    }
  }

  /// Returns the beginning of a report about a refusal. A refusal is not a step, so the report
  /// contains the version and the index of the previous step.
  private func reportHead(in feed: Feed) -> FeedBody {
    feed.reportHead(of: core.node, version: core.engine.settledVersion, index: steps.stepCount)
  }

  @export(interface)
  private func report(_ input: RefusedInput) {
    stepLog?.logRefused(input)
    // An event that 'on_refused: ignore' drops is counted, and not reported to subscribers.
    guard !input.isDropped, let (feed, rateLimitedFeed) = feedOutput, rateLimitedFeed.countItem()
    else { return }
    var body = reportHead(in: feed)
    body.add("time", WallClock.nanoseconds)
    body.add("refused", text: input.reason)
    if input.isPostponed { body.add("postponed", json: Array("true".utf8)) }
    body.add("event", json: input.event.bytes)
    let state = core.stateBytes
    if !state.isEmpty { body.add("state", json: state) }
    var origin = FeedBody()
    switch input.origin {
    case .pipe(let pipe, let stream, let number):
      body.add("cause", text: pipe)
      origin.add("pipe", text: pipe)
      origin.add("stream", stream)
      origin.add("number", number)
      body.add("source", origin)
    case .request(let key):
      body.add("cause", text: "request")
      origin.add("client", key.client)
      origin.add("number", key.id)
      body.add("request", origin)
    }
    rateLimitedFeed.report(core.engine.settledVersion, body)
  }
}
