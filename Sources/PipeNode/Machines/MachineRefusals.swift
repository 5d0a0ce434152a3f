import PipeMachines
import PipeSupport
import PipeWire

/// An event that a machine has refused for good, or that a pipe has postponed.
struct RefusedInput {
  /// Where the event came from.
  enum Origin {
    case pipe(String, stream: UInt64, number: UInt64)
    case request(RequestKey)
  }

  /// The event as JSON, or as text if it did not decode.
  let event: JSONValue
  let reason: String
  let origin: Origin
  /// Whether the event is tried again after the next step.
  let isPostponed: Bool

  init(_ event: JSONValue, because reason: String, from origin: Origin, isPostponed: Bool = false) {
    self.event = event
    self.reason = reason
    self.origin = origin
    self.isPostponed = isPostponed
  }
}

/// Reports the events that a machine refuses or postpones, while a subscriber of the feed asks for them.
final class MachineRefusals<Hosted: Machine> {
  private let core: MachineCore<Hosted>
  private let steps: MachineSteps<Hosted>
  private var output: (feed: Feed, rateLimitedFeed: RateLimitedFeed)?

  @export(interface)
  init(_ core: MachineCore<Hosted>, _ steps: MachineSteps<Hosted>) {
    self.core = core
    self.steps = steps
  }

  @export(interface)
  func report(to feed: Feed?) {
    guard (feed == nil) != (output == nil) else { return }
    output = feed.map { ($0, rateLimitedFeed(to: $0)) }
    core.onRefusal = output == nil ? nil : { [unowned self] in report($0) }
  }

  private func rateLimitedFeed(to feed: Feed) -> RateLimitedFeed {
    RateLimitedFeed(.refusal, about: core.node, to: feed) { [unowned self, unowned feed] skipped in
      var body = head(in: feed)
      body.add("refused", text: "")
      body.add("skipped", skipped)
      return (core.engine.settledVersion, body)
    }
  }

  /// Returns the head of a message about a refusal. A refusal is not a step: it carries the version
  /// and the index of the step before it.
  private func head(in feed: Feed) -> FeedBody {
    feed.head(of: core.node, version: core.engine.settledVersion, index: steps.count)
  }

  @export(interface)
  private func report(_ input: RefusedInput) {
    guard let output, output.rateLimitedFeed.begin() else { return }
    var body = head(in: output.feed)
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
    output.rateLimitedFeed.report(core.engine.settledVersion, body)
  }
}
