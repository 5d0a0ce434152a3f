import PipeJournal
import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Sends the answer to a request.
typealias Reply = (RequestReply) -> Void

/// The content of a node. Its other abilities are the roles below that it conforms to; see
/// ``HostedContent`` and ``ContentRoles``.
protocol NodeContent: ContentRoles {
  /// The content's description of itself.
  var description: MachineDescription { get }
  /// Starts the content: a machine enters its initial state.
  func start()
  /// Stops the content: it ends its operations and takes no more input.
  func stop()
  /// Fills in the content's part of the status.
  func fill(_ status: inout NodeStatus)
}

/// A content that may end its node by itself.
protocol SelfEndingContent: NodeContent {
  /// Called when the node must end: with the reason of its failure, or `nil` if its work is
  /// done.
  var onEnd: ((String?) -> Void)? { get set }
}

/// A content that shows states to the feed's subscribers.
protocol StatePublishingContent: NodeContent {
  /// Returns the current states of the nodes that it publishes; none before the start.
  func lastSteps() -> [FeedEntry]
}

/// A content with its own state, whose steps are published in the feed.
protocol SteppingContent: StatePublishingContent {
  /// Called on each entry into a state, and when the content resumes from a recorded state. The
  /// argument says whether a coordinator has committed the step, and so knows the state.
  var onEntry: ((_ isCommitted: Bool) -> Void)? { get set }
  /// Returns the current state for publication, or `nil` before the start.
  func lastStep() -> FeedEntry?
}

/// A content whose steps can be traced: its transitions counted, and each step reported.
protocol TraceableContent: NodeContent {
  /// Starts or stops counting transitions.
  func count(_ counts: Bool)
  /// How often each transition was taken since counting began; `nil` if transitions are not
  /// counted.
  var transitions: TransitionCounts? { get }
  /// Starts to report each step to the feed, or stops with `nil`.
  func reportSteps(to feed: Feed?)
  /// Starts to report each event that it refuses or postpones to the feed, or stops with `nil`.
  func reportRefusals(to feed: Feed?)
}

extension SteppingContent {
  func lastSteps() -> [FeedEntry] { lastStep().map { [$0] } ?? [] }
}

/// A content with pipes, which takes its inputs in turns.
protocol PipedContent: NodeContent {
  /// Connects the content to its pipes. Throws if it does not have a port.
  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws
  /// Connects further pipes that start at the content, while it runs.
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws
  /// Gives the content the services and the configuration of its node. Called after
  /// ``connect(outs:ins:)``.
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws
  /// Queues events that a pipe has delivered.
  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError)
  /// Takes queued inputs, up to a limit.
  func takeTurn()
  /// Whether a turn would take an input.
  var hasWork: Bool { get }
}

extension PipedContent {
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    throw NodeSetupError("the node accepts pipes only when it starts")
  }
}

/// A content that clients may send events to.
protocol RequestableContent: NodeContent {
  /// Takes an event that a client sends. Replies once, at once or when the step is recorded.
  /// - Parameters:
  ///   - oldest: The client waits for no answer to a request before this one.
  ///   - wantsState: Whether the reply contains the state after the step.
  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply)
}

/// A content that keeps the events that it cannot apply.
protocol DeadLetteringContent: NodeContent {
  /// Applies the event of a dead letter, or drops it. Replies once.
  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply)
}

/// A content that can explain which events are enabled.
protocol ExplainableContent: NodeContent {
  /// Explains how it would answer an event, or all events if the body is empty. Replies once.
  /// - Parameter key: The key of the instance, in a node with instances.
  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply)
}

/// A content with instances, whose states the feed's subscribers can follow one by one.
protocol InstancePublishingContent: NodeContent {
  /// Begins to publish the states of instances to this feed, as far as subscribers ask for them.
  func publishInstances(to feed: Feed)
}

/// A content that takes events together with other nodes.
protocol ParticipatingContent: NodeContent {
  /// The participant in synchronized events, if there is one.
  var participant: Participant? { get }
}

/// A content that coordinates events which other nodes take together.
protocol CoordinatingContent: NodeContent {
  /// Takes a synchronized event, or a query about one. Replies once.
  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, reply: @escaping Reply)
  /// Prepares to stop soon: begins no more long operations.
  func prepareToStop()
  /// Whether nothing is in progress that others wait for and that may end soon.
  var mayStop: Bool { get }
}

/// A content whose steps are shown and answered after their record, if there is a journal.
protocol JournaledContent: NodeContent {
  /// Whether the journal lacks a change.
  var hasUnrecordedChanges: Bool { get }
  /// Whether the journal has records that need not be kept. They are removed at the end, if not
  /// before.
  var hasObsoleteRecords: Bool { get }
  /// Writes the changes that the journal lacks.
  func record(into journal: Journal) throws
  /// Answers clients and starts effects: all steps are recorded, or need no record.
  func didRecord()
}

/// A content in each of its roles; `nil` for the roles that it does not have.
///
/// The extensions below answer for each conformance. A cast with `as?` would make the runtime
/// search all conformances of the process, once for each role, and take a good part of a node's
/// start.
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
extension InstancePublishingContent {
  var asInstancePublishing: (any InstancePublishingContent)? { self }
}

/// Hosts a state that never changes: a stand-in for a machine in tests and previews.
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

  func lastStep() -> FeedEntry? {
    guard isStarted else { return nil }
    return FeedEntry(version: 0, time: startedAt, cause: "initial", state: state.bytes)
  }

  func fill(_ status: inout NodeStatus) { status.state = isStarted ? state : nil }
  func stop() {}
}

/// Replaces a content that could not be made, so that the node can report why.
final class FailedContent: NodeContent {
  /// The permanent reason why the node cannot run: no restart helps. Otherwise `nil`.
  let problem: String?
  let description = MachineDescription(machine: "")

  init(problem: String?) { self.problem = problem }

  func start() {}
  func stop() {}
  func fill(_ status: inout NodeStatus) {}
}

/// The services of a node's shell for its content, on the loop's thread.
struct NodeServices {
  let loop: PollLoop
  let context: Context
  /// The carrier node; `nil` if the node has its own process.
  let carrier: LocalPeer?
  /// The endpoints of its peers; `nil` if all nodes are on one host.
  let peers: Peers?
  /// Does the work of the end of a turn at once: records what was taken, and takes waiting inputs.
  /// Returns `false` if that has ended the node.
  let finishTurn: () -> Bool
  /// Sends a frame to a peer of the inbox, by its routing id.
  let send: (FrameHeader, [UInt8], _ peer: [UInt8]) -> Socket.SendResult
  /// Cuts the connections at the inbox, as a failing network would.
  let cut: () -> Void
  /// Shows an entry to the feed's subscribers with the next record. `entry` is not called without
  /// subscribers.
  let publish: (_ entry: () -> FeedEntry?) -> Void
}
