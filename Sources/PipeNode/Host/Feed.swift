import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// A state that a node publishes, with the step that led to the state.
struct PublishedState {
  /// The name of the node that took the step; `nil` for the feed's own node.
  var node: String?
  var version: UInt64
  /// The time of the step. Unit: nanoseconds since 1970.
  var time: Int64
  var cause: String
  /// The state as JSON.
  var state: [UInt8]
  /// The transaction for which the node is in doubt; `nil` if there is none.
  var inDoubtTransaction: InDoubtTransaction?
  /// Whether the state is an intermediate state of a step in progress.
  var isIntermediate = false
  /// Whether a coordinator has committed the step. The coordinator then already knows the state.
  var isCommitted = false
  /// The transaction that led to this state of a composite; `nil` if a component's own step led to
  /// the state.
  var transaction: TransactionID?
}

/// Publishes a node's reports: states, steps, refusals, summaries, and the events of pipes. A
/// subscriber receives only the kinds of reports to which it has subscribed. A new subscriber to
/// states first receives the current states. See ``FeedTopic``.
final class Feed {
  let socket: Socket
  let node: String
  let loop: PollLoop
  private let nodeJSON: [UInt8]
  private let incarnation: UInt64
  private var subscriptions = FeedSubscriptions()
  /// Whether clients subscribe to states that a coordinator has committed (`committed`), and to all
  /// other states (`other`).
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var hasStateSubscriber = (other: false, committed: false)
  /// Whether a client subscribes to summaries.
  private(set) var hasSummarySubscriber = false
  /// Whether a client subscribes to steps.
  private(set) var hasStepSubscriber = false
  /// The numbers of the instances that subscribers follow; `nil` if a subscriber follows all
  /// instances.
  private(set) var followedInstanceTopics: Set<UInt32>? = []
  /// Whether a client subscribes to refused events.
  private(set) var hasRefusalSubscriber = false
  /// The states and frames that will be published when their steps are recorded.
  @exclusivity(unchecked)
  private var pendingStates: [PublishedState] = []
  @exclusivity(unchecked)
  private var pendingFrames: [(header: FrameHeader, body: [UInt8])] = []
  /// Returns the current states. Called when a client subscribes to states.
  @exclusivity(unchecked)
  var currentStates: (() -> [PublishedState])?
  /// The handlers that publish pending reports when the node ends, by their ids.
  private var endHandlersByID: [UInt64: () -> Void] = [:]
  private var lastEndHandlerID: UInt64 = 0
  /// Called when the subscriptions have changed. `asksForSummaries` is `true` if a new subscriber
  /// requires a summary, even if nothing has changed.
  var onChange: ((_ asksForSummaries: Bool) -> Void)?

  init(
    node: String, incarnation: UInt64, context: Context, loop: PollLoop
  ) throws(TransportError) {
    socket = try Socket(.publisher, in: context)
    try socket.setHighWaterMark(FeedSubscriptions.queueLimit)
    self.node = node
    nodeJSON = JSONValue.string(node).bytes
    self.loop = loop
    self.incarnation = incarnation
  }

  /// Returns whether a client subscribes to states. Without a subscriber, a state does not have to
  /// be encoded.
  /// - Parameter isCommitted: Whether to consider only states that a coordinator has committed.
  ///   `false` means all other states.
  func hasStateSubscriber(isCommitted: Bool) -> Bool {
    isCommitted ? hasStateSubscriber.committed : hasStateSubscriber.other
  }

  /// Queues the state of an instance, which is published when the instance's step is recorded. Does
  /// nothing if no subscriber follows the instance.
  /// - Parameter entry: Returns the state to publish, with `name` as the name of its node.
  func enqueue(
    instance name: @autoclosure () -> String, _ entry: (_ name: String) -> PublishedState?
  ) {
    if let followedInstanceTopics, followedInstanceTopics.isEmpty { return }
    let name = name()
    let number = FeedTopic.topicNumber(of: name)
    guard followedInstanceTopics?.contains(number) != false, let entry = entry(name) else { return }
    enqueue(.instance, about: number, entry.version, body(of: entry))
  }

  /// Returns whether a client subscribes to the events of an outbound pipe.
  func isTapped(_ pipe: String) -> Bool { subscriptions.hasSubscriber(for: .tap(pipe: pipe)) }

  /// Queues a state, which is published when its step is recorded.
  func enqueue(_ entry: PublishedState) { pendingStates.append(entry) }

  /// Queues the report of a step, which is published when the step is recorded.
  func enqueue(
    _ kind: FrameKind, about topic: UInt32, _ sequence: UInt64, _ body: FeedBody
  ) {
    pendingFrames.append((header(kind, about: topic, sequence), body.bytes))
  }

  /// Sends the queued states and reports to all subscribers. Called when their steps are recorded
  /// or, if the node has no journal, at the end of the turn.
  func publishPending() {
    guard !pendingStates.isEmpty || !pendingFrames.isEmpty else { return }
    for entry in pendingStates { publish(entry) }
    pendingStates.removeAll(keepingCapacity: true)
    for frame in pendingFrames { socket.send(frame.header, body: frame.body) }
    pendingFrames.removeAll(keepingCapacity: true)
  }

  /// Sends a summary with a node's current state. All values of the summary must already be
  /// recorded.
  func publish(_ summary: NodeSummary, with entry: PublishedState) {
    var body = body(of: entry)
    body.add("status", encoding: summary.status)
    body.add("transitions", encoding: summary.transitions)
    let topic = FeedTopic.topicNumber(of: entry.node ?? node)
    socket.send(header(.summary, about: topic, entry.version), body: body.bytes)
  }

  /// Returns the beginning of a report about a step, or about skipped steps.
  /// - Parameter index: The number of the step among the steps that this process has taken.
  func reportHead(of node: String, version: UInt64, index: UInt64) -> FeedBody {
    var head = FeedBody(reserving: 512)
    head.add("node", text: node)
    head.add("incarnation", incarnation)
    head.add("version", version)
    head.add("index", index)
    return head
  }

  /// Registers a handler that publishes a pending report when the node ends. Returns the handler's
  /// id.
  func addEndHandler(_ report: @escaping () -> Void) -> UInt64 {
    lastEndHandlerID += 1
    endHandlersByID[lastEndHandlerID] = report
    return lastEndHandlerID
  }

  func removeEndHandler(_ endHandlerID: UInt64) { endHandlersByID[endHandlerID] = nil }

  /// Publishes the pending reports when the node ends. Called once everything is recorded.
  func publishFinalReports() {
    for report in endHandlersByID.values { report() }
    publishPending()
  }

  /// Closes the socket. It continues to send during its linger period.
  func close() { socket.close(lingering: .milliseconds(300)) }

  private func header(_ kind: FrameKind, about topic: UInt32, _ sequence: UInt64) -> FrameHeader {
    FrameHeader(kind, count: topic, sequence: sequence, incarnationOrSession: incarnation)
  }

  private func publish(_ entry: PublishedState) {
    var body = body(of: entry)
    socket.send(
      FrameHeader(
        .state, flags: entry.isCommitted ? FeedTopic.committedFlag : 0, sequence: entry.version,
        incarnationOrSession: incarnation), body: body.finish())
  }

  private func body(of entry: PublishedState) -> FeedBody {
    var body = FeedBody(reserving: 160 + entry.state.count)
    body.add("node", json: entry.node.map { JSONValue.string($0).bytes } ?? nodeJSON)
    body.add("incarnation", incarnation)
    body.add("version", entry.version)
    body.add("time", entry.time)
    body.add("cause", text: entry.cause)
    body.add("state", json: entry.state)
    body.add("doubt", encoding: entry.inDoubtTransaction)
    if entry.isIntermediate { body.add("isIntermediate", json: Array("true".utf8)) }
    return body
  }

  /// Reads the clients' subscriptions. The node must publish the current states or a summary for
  /// each new or repeated subscription.
  func readSubscriptions() {
    var newTopics: [[UInt8]] = []
    while socket.receive({ _, message in
      if let topic = subscriptions.take(message) { newTopics.append(topic) }
    }) {}
    hasStateSubscriber = (
      other: subscriptions.hasSubscriber(for: .states(areCommitted: false)),
      committed: subscriptions.hasSubscriber(for: .states(areCommitted: true))
    )
    hasSummarySubscriber = subscriptions.hasSubscriber(for: .summaries(of: nil))
    hasStepSubscriber = subscriptions.hasSubscriber(for: .steps(of: nil))
    hasRefusalSubscriber = subscriptions.hasSubscriber(for: .refusals(of: nil))
    followedInstanceTopics = subscriptions.requestedInstanceTopicNumbers
    // This frame confirms the subscription: the subscriber receives all further states of the
    // instance. So the subscriber can now request the current state without missing a later state.
    for number in newTopics.compactMap(FeedTopic.instanceNumber) {
      socket.send(header(.instance, about: number, 0), body: FeedBody(reserving: 2).bytes)
    }
    onChange?(newTopics.contains { FeedTopic.summaries(of: nil).isRequested(by: $0) })
    if newTopics.contains(where: { FeedTopic.states(areCommitted: nil).isRequested(by: $0) }) {
      for entry in currentStates?() ?? [] { publish(entry) }
    }
  }
}

/// A builder for the body of a feed's frame, which is a JSON object.
struct FeedBody {
  private var writtenBytes: [UInt8] = []

  init(reserving byteCount: Int = 256) {
    writtenBytes.reserveCapacity(byteCount)
    writtenBytes.append(UInt8(ascii: "{"))
  }

  /// Completes the object and returns its bytes. Do not add anything after this call.
  mutating func finish() -> [UInt8] {
    writtenBytes.append(UInt8(ascii: "}"))
    return writtenBytes
  }

  /// The bytes of the object with the fields added so far.
  var bytes: [UInt8] { writtenBytes + [UInt8(ascii: "}")] }

  mutating func add(_ key: StaticString, json: some Sequence<UInt8>) {
    begin(key)
    writtenBytes.append(contentsOf: json)
  }

  mutating func add(_ key: StaticString, text: String) {
    add(key, json: JSONValue.string(text).bytes)
  }

  mutating func add(_ key: StaticString, _ number: some FixedWidthInteger) {
    add(key, json: String(number).utf8)
  }

  /// Adds the JSON of a value; does nothing if the value is `nil`.
  mutating func add(_ key: StaticString, encoding value: (some Encodable)?) {
    guard let value, let json = try? JSONValue(encoding: value) else { return }
    add(key, json: json.bytes)
  }

  /// Adds a field whose value is an object.
  mutating func add(_ key: StaticString, _ object: FeedBody) { add(key, json: object.bytes) }

  /// Adds a field whose value is an array of objects.
  mutating func add(_ key: StaticString, _ objects: [FeedBody]) {
    begin(key)
    writtenBytes.append(UInt8(ascii: "["))
    for (index, object) in objects.enumerated() {
      if index > 0 { writtenBytes.append(UInt8(ascii: ",")) }
      writtenBytes.append(contentsOf: object.bytes)
    }
    writtenBytes.append(UInt8(ascii: "]"))
  }

  /// Begins a field. The key must not contain characters that require an escape.
  private mutating func begin(_ key: StaticString) {
    if writtenBytes.count > 1 { writtenBytes.append(UInt8(ascii: ",")) }
    writtenBytes.append(UInt8(ascii: "\""))
    key.withUTF8Buffer { writtenBytes.append(contentsOf: $0) }
    writtenBytes.append(contentsOf: [UInt8(ascii: "\""), UInt8(ascii: ":")])
  }
}

/// Reports consecutive items (a node's steps, or a pipe's events) to subscribers, within a budget.
/// Leaves out the items that exceed the budget, and reports their exact number.
final class RateLimitedFeed {
  private let feed: Feed
  private let kind: FrameKind
  private let topic: UInt32
  private var budget = FeedBudget()
  private var endHandlerID: UInt64 = 0
  /// Returns a report that `skipped` items were left out, with its sequence number.
  private let makeGapReport: (_ skipped: UInt64) -> (sequence: UInt64, body: FeedBody)

  /// - Parameter name: The name of the node or the pipe whose items are reported.
  init(
    _ kind: FrameKind, about name: String, to feed: Feed,
    makeGapReport: @escaping (_ skipped: UInt64) -> (sequence: UInt64, body: FeedBody)
  ) {
    self.feed = feed
    self.kind = kind
    topic = FeedTopic.topicNumber(of: name)
    self.makeGapReport = makeGapReport
    endHandlerID = feed.addEndHandler { [weak self] in self?.reopen() }
  }

  deinit { feed.removeEndHandler(endHandlerID) }

  /// Counts an item against the budget. Returns whether to report the item with ``report(_:_:)``.
  func countItem() -> Bool {
    switch budget.take(at: { BootClock.nanoseconds }) {
    case .report: return true
    case .reportAndPause(let time):
      feed.loop.schedule(after: time, for: self) { $0.reopen() }
      return true
    case .skip: return false
    }
  }

  /// Reports an item once the step that caused it is recorded.
  func report(_ sequence: UInt64, _ body: FeedBody) {
    feed.enqueue(kind, about: topic, sequence, body)
  }

  private func reopen() {
    let skipped = budget.reopen()
    guard skipped > 0 else { return }
    let (sequence, body) = makeGapReport(skipped)
    report(sequence, body)
  }
}
