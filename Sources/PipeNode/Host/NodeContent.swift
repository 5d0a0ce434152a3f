import PipeJournal
import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// A function that sends the answer to a request.
typealias Reply = (RequestReply) -> Void

/// The content of a node, which is a machine, a machine's instances, composites, a monitor or a
/// constant state. The protocols below are roles that a content can have in addition; see
/// ``HostedContent`` and ``ContentRoles``.
protocol NodeContent: ContentRoles {
  /// The description of the machine or of the node's other content.
  var description: MachineDescription { get }
  /// Starts the content: a machine enters its initial state.
  func start()
  /// Stops the content: the content ends its operations and accepts no more input.
  func stop()
  /// Fills in the content's part of the status.
  func fill(_ status: inout NodeStatus)
}

/// A content that can end its node by itself.
protocol SelfEndingContent: NodeContent {
  /// Called when the content ends the node. The argument is the failure reason; `nil` if the
  /// content has finished its work.
  var onEnd: ((String?) -> Void)? { get set }
}

/// A content that publishes states to the feed's subscribers.
protocol StatePublishingContent: NodeContent {
  /// Returns the current states that the content publishes, each with the name of its node. Returns
  /// an empty array before the start.
  func lastSteps() -> [PublishedState]
}

/// A content with its own state, whose steps are published in the feed.
protocol SteppingContent: StatePublishingContent {
  /// Called on each entry into a state, and when the content resumes from a recorded state.
  /// `isCommitted` is `true` if a coordinator has committed the step and so already knows the
  /// state.
  var onEntry: ((_ isCommitted: Bool) -> Void)? { get set }
  /// Returns the current state for publication; `nil` before the content has started.
  func lastStep() -> PublishedState?
}

/// A content that can count its transitions and report each step.
protocol TraceableContent: NodeContent {
  /// Begins or ends counting transitions.
  func count(_ counts: Bool)
  /// The number of times that each transition has occurred since counting began; `nil` if
  /// transitions are not counted.
  var transitions: TransitionCounts? { get }
  /// Starts to report each step to the feed; `nil` stops these reports.
  func reportSteps(to feed: Feed?)
  /// Begins to report to the feed each event that the content refuses or postpones; `nil` ends
  /// these reports.
  func reportRefusals(to feed: Feed?)
  /// Writes each step, and each event that is consumed without a step, to a log.
  /// - Returns: Whether the content can write its steps.
  func logSteps(in log: StepLog) -> Bool
}

extension SteppingContent {
  func lastSteps() -> [PublishedState] { lastStep().map { [$0] } ?? [] }
}

/// A content with pipes, which processes its inputs in turns.
protocol PipedContent: NodeContent {
  /// Connects the content to its pipes. Throws an error if the content has no port for one of the
  /// pipes.
  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws
  /// Connects the content to outbound pipes that are added while the content runs.
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws
  /// Passes the services and the configuration of the node to the content. Called after
  /// ``connect(outs:ins:)``.
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws
  /// Queues events that a pipe has delivered.
  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError)
  /// Processes queued inputs, up to a limit per turn.
  func takeTurn()
  /// Whether a queued input can be processed in a turn now.
  var hasWork: Bool { get }
}

extension PipedContent {
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    throw NodeSetupError("the node accepts pipes only when it starts")
  }
}

/// A content to which clients can send events.
protocol RequestableContent: NodeContent {
  /// Handles an event that a client has sent. Replies once, either immediately or when the step is
  /// recorded.
  /// - Parameters:
  ///   - key: Identifies the client and its request.
  ///   - oldest: The number of the client's oldest request to which the client may still expect an
  ///     answer.
  ///   - wantsState: Whether the reply must contain the state after the step.
  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply)
}

/// A content that stores refused events as dead letters.
protocol DeadLetteringContent: NodeContent {
  /// Applies the event of a dead letter or, if `drops` is `true`, removes the dead letter. Replies
  /// once.
  func resolveDeadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply)
}

/// A content that can explain how it would answer events.
protocol ExplainableContent: NodeContent {
  /// Explains how the content would answer an event or, if `body` is empty, all events. Replies
  /// once.
  /// - Parameter key: The key of the instance; `nil` for a node without instances.
  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply)
}

/// A content that can be gated: it then takes only the steps that a client requests.
protocol GateableContent: NodeContent {
  /// Handles a request to the gate. Replies once, at the latest when the requested step is
  /// recorded.
  func gate(_ request: GateRequest, reply: @escaping Reply)
}

/// A content with instances. Each subscriber of the feed selects the instances that it follows.
protocol InstancePublishingContent: NodeContent {
  /// Begins to publish to this feed the states of the instances that subscribers follow.
  func publishInstances(to feed: Feed)
}

/// A content that can take part in synchronized events.
protocol ParticipatingContent: NodeContent {
  /// The node's participant in synchronized events; `nil` if the node takes part in none.
  var nodeParticipant: (any NodeParticipant)? { get }
}

/// A content that coordinates the synchronized events of other nodes.
protocol CoordinatingContent: NodeContent {
  /// Handles a client's synchronized event, or a client's query about such an event. Replies once.
  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, reply: @escaping Reply)
  /// Prepares for a stop. After this call, the content begins no long operations.
  func prepareToStop()
  /// Whether the node may stop now. `false` during an operation that other nodes wait for and that
  /// will probably end soon.
  var mayStop: Bool { get }
}

/// A content that can have a journal. The journal records each step before the step is published
/// and its client is answered.
protocol JournaledContent: NodeContent {
  /// Whether the content has changes that the journal has not recorded yet.
  var hasUnrecordedChanges: Bool { get }
  /// Whether the journal has records that can be removed. They are removed when the node ends, at
  /// the latest.
  var hasObsoleteRecords: Bool { get }
  /// Writes the changes that the journal has not recorded yet.
  func record(into journal: Journal) throws
  /// Answers clients and starts effects. Called when all steps are recorded or, if there is no
  /// journal, at the end of the turn.
  func didRecord()
}

/// A content as an instance of each of its role protocols; `nil` for a role that the content does
/// not have.
///
/// The extensions below implement these properties. A cast with `as?` for each role would take a
/// considerable part of a node's start, because the Swift runtime would search all conformances in
/// the process.
protocol ContentRoles: AnyObject {
  var asSelfEnding: (any SelfEndingContent)? { get }
  var asStatePublishing: (any StatePublishingContent)? { get }
  var asStepping: (any SteppingContent)? { get }
  var asTraceable: (any TraceableContent)? { get }
  var asPiped: (any PipedContent)? { get }
  var asRequestable: (any RequestableContent)? { get }
  var asDeadLettering: (any DeadLetteringContent)? { get }
  var asExplainable: (any ExplainableContent)? { get }
  var asCoordinating: (any CoordinatingContent)? { get }
  var asParticipating: (any ParticipatingContent)? { get }
  var asJournaled: (any JournaledContent)? { get }
  var asInstancePublishing: (any InstancePublishingContent)? { get }
  var asGateable: (any GateableContent)? { get }
}

extension ContentRoles {
  var asSelfEnding: (any SelfEndingContent)? { nil }
  var asStatePublishing: (any StatePublishingContent)? { nil }
  var asStepping: (any SteppingContent)? { nil }
  var asTraceable: (any TraceableContent)? { nil }
  var asPiped: (any PipedContent)? { nil }
  var asRequestable: (any RequestableContent)? { nil }
  var asDeadLettering: (any DeadLetteringContent)? { nil }
  var asExplainable: (any ExplainableContent)? { nil }
  var asCoordinating: (any CoordinatingContent)? { nil }
  var asParticipating: (any ParticipatingContent)? { nil }
  var asJournaled: (any JournaledContent)? { nil }
  var asInstancePublishing: (any InstancePublishingContent)? { nil }
  var asGateable: (any GateableContent)? { nil }
}

extension SelfEndingContent { var asSelfEnding: (any SelfEndingContent)? { self } }
extension StatePublishingContent { var asStatePublishing: (any StatePublishingContent)? { self } }
extension SteppingContent { var asStepping: (any SteppingContent)? { self } }
extension TraceableContent { var asTraceable: (any TraceableContent)? { self } }
extension PipedContent { var asPiped: (any PipedContent)? { self } }
extension RequestableContent { var asRequestable: (any RequestableContent)? { self } }
extension DeadLetteringContent { var asDeadLettering: (any DeadLetteringContent)? { self } }
extension ExplainableContent { var asExplainable: (any ExplainableContent)? { self } }
extension CoordinatingContent { var asCoordinating: (any CoordinatingContent)? { self } }
extension ParticipatingContent { var asParticipating: (any ParticipatingContent)? { self } }
extension JournaledContent { var asJournaled: (any JournaledContent)? { self } }
extension GateableContent { var asGateable: (any GateableContent)? { self } }
extension InstancePublishingContent {
  var asInstancePublishing: (any InstancePublishingContent)? { self }
}

/// A content with a state that never changes. It replaces a machine in tests and previews.
final class ConstantContent: SteppingContent, RequestableContent {
  let description: MachineDescription
  var onEntry: ((_ isCommitted: Bool) -> Void)?
  private let state: JSONValue
  private var isStarted = false
  private var startedAt: Int64 = 0

  init(state: JSONValue, machine: String?) {
    self.state = state
    description = MachineDescription(machine: machine ?? "constant", initial: state)
  }

  func start() {
    isStarted = true
    startedAt = WallClock.nanoseconds
    onEntry?(false)
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply
  ) {
    reply(.refused(.noTransition, version: 0, state: state.bytes))
  }

  func lastStep() -> PublishedState? {
    guard isStarted else { return nil }
    return PublishedState(version: 0, time: startedAt, cause: "initial", state: state.bytes)
  }

  func fill(_ status: inout NodeStatus) { status.state = isStarted ? state : nil }
  func stop() {}
}

/// The replacement for a content that could not be created. The node can then report the reason.
final class FailedContent: NodeContent {
  /// The reason why the node can never run, even after a restart; `nil` if a restart may help.
  let failureReason: String?
  let description = MachineDescription(machine: "")

  init(failureReason: String?) { self.failureReason = failureReason }

  func start() {}
  func stop() {}
  func fill(_ status: inout NodeStatus) {}
}

/// The services that ``NodeShell`` provides to its content. Must be used only on the loop's thread.
struct NodeServices {
  let loop: PollLoop
  let context: Context
  /// The carrier node; `nil` if the node has its own process.
  let carrier: LocalPeer?
  /// The node's peers with their endpoints; `nil` if all nodes are on one host.
  let peers: Peers?
  /// Ends the current turn early: records its changes, publishes its results, and then processes
  /// the waiting inputs in another turn. Returns `false` if the node has ended.
  let finishTurn: () -> Bool
  /// Sends a frame through the inbox to the peer with the routing id `peer`.
  let send: (FrameHeader, [UInt8], _ peer: [UInt8]) -> Socket.SendResult
  /// Cuts the connections at the inbox, as a failing network would.
  let cutConnections: () -> Void
  /// Publishes an entry to the feed's subscribers after the next changes are recorded. Calls
  /// `entry` only if there are subscribers.
  let publish: (_ entry: () -> PublishedState?) -> Void
}
