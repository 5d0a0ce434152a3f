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
protocol EndsByItself: NodeContent {
  /// Called when the node must end: with the reason of its failure, or `nil` if its work is
  /// done.
  var onEnd: ((String?) -> Void)? { get set }
}

/// A content that shows states to the feed's subscribers.
protocol ShowsStates: NodeContent {
  /// Returns the current states of the nodes that it publishes; none before the start.
  func lastSteps() -> [FeedEntry]
}

/// A content with its own state, whose steps are published in the feed.
protocol TakesSteps: ShowsStates {
  /// Called on each entry into a state, and when the content resumes from a recorded state. The
  /// argument says whether a coordinator has committed the step, and so knows the state.
  var onEntry: ((_ isCommitted: Bool) -> Void)? { get set }
  /// Returns the current state for publication, or `nil` before the start.
  func lastStep() -> FeedEntry?
}

/// A content whose steps can be traced: its transitions counted, and each step reported.
protocol TracesSteps: NodeContent {
  /// Starts or stops counting transitions.
  func count(_ counts: Bool)
  /// How often each transition was taken since counting began; `nil` if transitions are not
  /// counted.
  var transitions: TransitionCounts? { get }
  /// Starts to report each step to the feed, or stops with `nil`.
  func tellSteps(to feed: Feed?)
  /// Starts to report each event that it refuses or postpones to the feed, or stops with `nil`.
  func reportRefusals(to feed: Feed?)
}

extension TakesSteps {
  func lastSteps() -> [FeedEntry] { lastStep().map { [$0] } ?? [] }
}

/// A content with pipes, which takes its inputs in turns.
protocol TakesInputs: NodeContent {
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

extension TakesInputs {
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    throw NodeSetupError("the node accepts pipes only when it starts")
  }
}

/// A content that clients may send events to.
protocol TakesRequests: NodeContent {
  /// Takes an event that a client sends. Replies once, at once or when the step is recorded.
  /// - Parameter oldest: The client waits for no answer to a request before this one.
  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, reply: @escaping Reply)
}

/// A content that keeps the events that it cannot apply.
protocol HasDeadLetters: NodeContent {
  /// Applies the event of a dead letter, or drops it. Replies once.
  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply)
}

/// A content that can explain which events are enabled.
protocol AnswersQuestions: NodeContent {
  /// Explains how it would answer an event, or all events if the body is empty. Replies once.
  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping Reply)
}

/// A content that takes events together with other nodes.
protocol TakesPart: NodeContent {
  /// The participant in synchronized events, if there is one.
  var participant: Participant? { get }
}

/// A content that coordinates events which other nodes take together.
protocol Coordinates: NodeContent {
  /// Takes a synchronized event, or a query about one. Replies once.
  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, reply: @escaping Reply)
  /// Prepares to stop soon: begins no more long operations.
  func prepareToStop()
  /// Whether nothing is in progress that others wait for and that may end soon.
  var mayStop: Bool { get }
}

/// A content whose steps are shown and answered after their record, if there is a journal.
protocol RecordsSteps: NodeContent {
  /// Whether the journal lacks a change.
  var hasUnrecorded: Bool { get }
  /// Whether the journal has records that need not be kept. They are removed at the end, if not
  /// before.
  var hasLeftover: Bool { get }
  /// Writes the changes that the journal lacks.
  func record(into journal: Journal) throws
  /// Answers clients and starts effects: all steps are recorded, or need no record.
  func becameRecorded()
}

/// A content in each of its roles; `nil` for the roles that it does not have.
///
/// The extensions below answer for each conformance. A cast with `as?` would make the runtime
/// search all conformances of the process, once for each role, and take a good part of a node's
/// start.
protocol ContentRoles: AnyObject {
  var asEndsByItself: (any EndsByItself)? { get }
  var asShowsStates: (any ShowsStates)? { get }
  var asTakesSteps: (any TakesSteps)? { get }
  var asTracesSteps: (any TracesSteps)? { get }
  var asTakesInputs: (any TakesInputs)? { get }
  var asTakesRequests: (any TakesRequests)? { get }
  var asHasDeadLetters: (any HasDeadLetters)? { get }
  var asAnswersQuestions: (any AnswersQuestions)? { get }
  var asCoordinates: (any Coordinates)? { get }
  var asTakesPart: (any TakesPart)? { get }
  var asRecordsSteps: (any RecordsSteps)? { get }
}

extension ContentRoles {
  var asEndsByItself: (any EndsByItself)? { nil }
  var asShowsStates: (any ShowsStates)? { nil }
  var asTakesSteps: (any TakesSteps)? { nil }
  var asTracesSteps: (any TracesSteps)? { nil }
  var asTakesInputs: (any TakesInputs)? { nil }
  var asTakesRequests: (any TakesRequests)? { nil }
  var asHasDeadLetters: (any HasDeadLetters)? { nil }
  var asAnswersQuestions: (any AnswersQuestions)? { nil }
  var asCoordinates: (any Coordinates)? { nil }
  var asTakesPart: (any TakesPart)? { nil }
  var asRecordsSteps: (any RecordsSteps)? { nil }
}

extension EndsByItself { var asEndsByItself: (any EndsByItself)? { self } }
extension ShowsStates { var asShowsStates: (any ShowsStates)? { self } }
extension TakesSteps { var asTakesSteps: (any TakesSteps)? { self } }
extension TracesSteps { var asTracesSteps: (any TracesSteps)? { self } }
extension TakesInputs { var asTakesInputs: (any TakesInputs)? { self } }
extension TakesRequests { var asTakesRequests: (any TakesRequests)? { self } }
extension HasDeadLetters { var asHasDeadLetters: (any HasDeadLetters)? { self } }
extension AnswersQuestions { var asAnswersQuestions: (any AnswersQuestions)? { self } }
extension Coordinates { var asCoordinates: (any Coordinates)? { self } }
extension TakesPart { var asTakesPart: (any TakesPart)? { self } }
extension RecordsSteps { var asRecordsSteps: (any RecordsSteps)? { self } }

/// Hosts a state that never changes: a stand-in for a machine in tests and previews.
final class ConstantContent: TakesSteps, TakesRequests {
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
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, reply: @escaping Reply
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
  let host: LocalPeer?
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
