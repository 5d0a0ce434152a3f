import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// One published step of a node.
struct FeedEntry {
  /// The node of the step, if it is not the feed's own node.
  var node: String?
  var version: UInt64
  /// Unit: nanoseconds since 1970.
  var time: Int64
  var cause: String
  /// The state as JSON.
  var state: [UInt8]
  /// The transaction that the node has prepared in this state and whose outcome it does not know.
  var doubt: InDoubtTransaction?
  /// Whether the state is an intermediate state of a step in progress.
  var isIntermediate = false
  /// Whether the coordinator has committed the step, and so knows it.
  var isCommitted = false
  /// The transaction that moved a composite.
  var transaction: TransactionID?
}

/// The publishing end of a node's reports. Each kind of report goes only to its subscribers. A new
/// subscriber to states first gets the last states. See ``FeedTopic``.
final class Feed {
  let socket: Socket
  let node: String
  let loop: PollLoop
  private let nodeJSON: [UInt8]
  private let incarnation: UInt64
  private var subscriptions = FeedSubscriptions()
  /// Whether a subscriber asks for states, and whether one also asks for states that a coordinator
  /// has committed.
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var hasStateSubscriber = (other: false, committed: false)
  /// Whether a subscriber asks for summaries, and for steps.
  private(set) var hasSummarySubscriber = false
  private(set) var hasStepSubscriber = false
  /// The numbers of the instances that subscribers follow; `nil` if one follows all instances.
  private(set) var followedInstances: Set<UInt32>? = []
  /// Whether a subscriber asks for refused events.
  private(set) var hasRefusalSubscriber = false
  /// The steps and frames to publish once they are recorded.
  @exclusivity(unchecked)
  private var pendingEntries: [FeedEntry] = []
  @exclusivity(unchecked)
  private var pendingFrames: [(header: FrameHeader, body: [UInt8])] = []
  /// Returns the last steps; called when a new subscriber asks for states.
  @exclusivity(unchecked)
  var currentEntries: (() -> [FeedEntry])?
  /// The handlers that publish pending reports at the end of the node.
  private var endHandlers: [UInt64: () -> Void] = [:]
  private var lastEndHandlerID: UInt64 = 0
  /// Called when a subscriber has come or gone. The argument says whether to send a summary even if
  /// nothing has changed.
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

  /// Whether a subscriber asks for such states. Without one, a step need not be encoded.
  func hasStateSubscriber(isCommitted: Bool) -> Bool {
    isCommitted ? hasStateSubscriber.committed : hasStateSubscriber.other
  }

  /// Keeps the state of an instance until it is recorded, if a subscriber follows the instance.
  /// - Parameter entry: Returns the step; its node is the name of the instance.
  func enqueue(instance name: @autoclosure () -> String, _ entry: (_ name: String) -> FeedEntry?) {
    if let followedInstances, followedInstances.isEmpty { return }
    let name = name()
    let number = FeedTopic.number(of: name)
    guard followedInstances?.contains(number) != false, let entry = entry(name) else { return }
    enqueue(.instance, about: number, entry.version, body(of: entry))
  }

  /// Whether a subscriber asks for the events of a pipe that starts at this node.
  func isTapped(_ pipe: String) -> Bool { subscriptions.hasSubscriber(for: .tap(pipe: pipe)) }

  /// Keeps a step until it is recorded.
  func enqueue(_ entry: FeedEntry) { pendingEntries.append(entry) }

  /// Keeps the report of a step until the step is recorded.
  func enqueue(
    _ kind: FrameKind, about topic: UInt32, _ sequence: UInt64, _ body: FeedBody
  ) {
    pendingFrames.append((header(kind, about: topic, sequence), body.bytes))
  }

  /// Sends the kept reports to all subscribers: their steps are recorded, or need no record.
  func publishPending() {
    guard !pendingEntries.isEmpty || !pendingFrames.isEmpty else { return }
    for entry in pendingEntries { publish(entry) }
    pendingEntries.removeAll(keepingCapacity: true)
    for frame in pendingFrames { socket.send(frame.header, body: frame.body) }
    pendingFrames.removeAll(keepingCapacity: true)
  }

  /// Sends a summary of what is recorded.
  func publish(_ summary: NodeSummary, with entry: FeedEntry) {
    var body = body(of: entry)
    body.add("status", encoding: summary.status)
    body.add("transitions", encoding: summary.transitions)
    let topic = FeedTopic.number(of: entry.node ?? node)
    socket.send(header(.summary, about: topic, entry.version), body: body.bytes)
  }

  /// Returns the beginning of a report about a step, or about steps that are left out.
  /// - Parameter index: The index of the step among the steps of this process.
  func head(of node: String, version: UInt64, index: UInt64) -> FeedBody {
    var head = FeedBody(reserving: 512)
    head.add("node", text: node)
    head.add("incarnation", incarnation)
    head.add("version", version)
    head.add("index", index)
    return head
  }

  /// Registers a handler that publishes a pending report at the end of the node. Returns its
  /// number.
  func addEndHandler(_ report: @escaping () -> Void) -> UInt64 {
    lastEndHandlerID += 1
    endHandlers[lastEndHandlerID] = report
    return lastEndHandlerID
  }

  func removeEndHandler(_ endHandlerID: UInt64) { endHandlers[endHandlerID] = nil }

  /// Publishes the pending reports: the node ends, and everything is recorded.
  func publishFinalReports() {
    for report in endHandlers.values { report() }
    publishPending()
  }

  /// Closes the socket. It continues to send during its linger period.
  func close() { socket.close(lingering: .milliseconds(300)) }

  private func header(_ kind: FrameKind, about topic: UInt32, _ sequence: UInt64) -> FrameHeader {
    FrameHeader(kind, count: topic, sequence: sequence, number: incarnation)
  }

  private func publish(_ entry: FeedEntry) {
    var body = body(of: entry)
    socket.send(
      FrameHeader(
        .state, flags: entry.isCommitted ? FeedTopic.committedFlag : 0, sequence: entry.version,
        number: incarnation), body: body.finish())
  }

  private func body(of entry: FeedEntry) -> FeedBody {
    var body = FeedBody(reserving: 160 + entry.state.count)
    body.add("node", json: entry.node.map { JSONValue.string($0).bytes } ?? nodeJSON)
    body.add("incarnation", incarnation)
    body.add("version", entry.version)
    body.add("time", entry.time)
    body.add("cause", text: entry.cause)
    body.add("state", json: entry.state)
    body.add("doubt", encoding: entry.doubt)
    if entry.isIntermediate { body.add("isIntermediate", json: Array("true".utf8)) }
    return body
  }

  /// Reads subscriptions. Each one, repeated or new, asks for the last state or for a summary.
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
    followedInstances = subscriptions.instances
    // After this frame, the subscriber misses no state, and may ask for the current one.
    for number in newTopics.compactMap(FeedTopic.instanceNumber) {
      socket.send(header(.instance, about: number, 0), body: FeedBody(reserving: 2).bytes)
    }
    onChange?(newTopics.contains { FeedTopic.summaries(of: nil).isRequested(by: $0) })
    if newTopics.contains(where: { FeedTopic.states(areCommitted: nil).isRequested(by: $0) }) {
      for entry in currentEntries?() ?? [] { publish(entry) }
    }
  }
}

/// The body of a feed's frame, a JSON object, while it is written.
struct FeedBody {
  private var written: [UInt8] = []

  init(reserving byteCount: Int = 256) {
    written.reserveCapacity(byteCount)
    written.append(UInt8(ascii: "{"))
  }

  /// Completes the object and returns it. Nothing may be added afterwards.
  mutating func finish() -> [UInt8] {
    written.append(UInt8(ascii: "}"))
    return written
  }

  /// The object so far, completed.
  var bytes: [UInt8] { written + [UInt8(ascii: "}")] }

  mutating func add(_ key: StaticString, json: some Sequence<UInt8>) {
    begin(key)
    written.append(contentsOf: json)
  }

  mutating func add(_ key: StaticString, text: String) {
    add(key, json: JSONValue.string(text).bytes)
  }

  mutating func add(_ key: StaticString, _ number: some FixedWidthInteger) {
    add(key, json: String(number).utf8)
  }

  /// Adds the JSON of a value, if there is one.
  mutating func add(_ key: StaticString, encoding value: (some Encodable)?) {
    guard let value, let json = try? JSONValue(encoding: value) else { return }
    add(key, json: json.bytes)
  }

  /// Adds an object.
  mutating func add(_ key: StaticString, _ object: FeedBody) { add(key, json: object.bytes) }

  /// Adds an array of objects.
  mutating func add(_ key: StaticString, _ objects: [FeedBody]) {
    begin(key)
    written.append(UInt8(ascii: "["))
    for (index, object) in objects.enumerated() {
      if index > 0 { written.append(UInt8(ascii: ",")) }
      written.append(contentsOf: object.bytes)
    }
    written.append(UInt8(ascii: "]"))
  }

  /// Begins an entry. Keys need no escapes.
  private mutating func begin(_ key: StaticString) {
    if written.count > 1 { written.append(UInt8(ascii: ",")) }
    written.append(UInt8(ascii: "\""))
    key.withUTF8Buffer { written.append(contentsOf: $0) }
    written.append(contentsOf: [UInt8(ascii: "\""), UInt8(ascii: ":")])
  }
}

/// Reports consecutive items, a node's steps or a pipe's events, to subscribers: within a budget,
/// and with the exact number of items that are left out.
final class RateLimitedFeed {
  private let feed: Feed
  private let kind: FrameKind
  private let topic: UInt32
  private var budget = FeedBudget()
  private var endHandlerID: UInt64 = 0
  /// Makes the report that this number of items was left out, with its sequence number.
  private let makeGapReport: (_ skipped: UInt64) -> (sequence: UInt64, body: FeedBody)

  /// - Parameter name: The node or the pipe that the feed is about.
  init(
    _ kind: FrameKind, about name: String, to feed: Feed,
    makeGapReport: @escaping (_ skipped: UInt64) -> (sequence: UInt64, body: FeedBody)
  ) {
    self.feed = feed
    self.kind = kind
    topic = FeedTopic.number(of: name)
    self.makeGapReport = makeGapReport
    endHandlerID = feed.addEndHandler { [weak self] in self?.reopen() }
  }

  deinit { feed.removeEndHandler(endHandlerID) }

  /// Counts an item against the budget. Returns whether to report it with ``tell(_:_:)``.
  func begin() -> Bool {
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
