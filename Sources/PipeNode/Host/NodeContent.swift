import PipeJournal
import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Answers a request.
typealias Reply = (RequestReply) -> Void

/// What a node hosts. What it is beside that, it says by the roles below that it conforms to; see
/// ``HostedContent`` and ``ContentRoles``.
protocol NodeContent: ContentRoles {
  /// What the content tells of itself.
  var description: MachineDescription { get }
  /// Begins: a machine enters its initial state.
  func start()
  /// Ends what it has under way; no input is taken any more.
  func stop()
  /// Fills in what the content knows.
  func fill(_ status: inout NodeStatus)
}

/// A content that may end its node by itself.
protocol EndsByItself: NodeContent {
  /// Called where the node must end: with the reason of its failure, or `nil` where its work is done.
  var onEnd: ((String?) -> Void)? { get set }
}

/// A content that shows states to the feed's subscribers.
protocol ShowsStates: NodeContent {
  /// The current states of all that it publishes; none before the start.
  func lastSteps() -> [FeedEntry]
}

/// A content with a state of its own, of which the feed is told each step.
protocol TakesSteps: ShowsStates {
  /// Called on each entry, and where a recorded state is gone on from; with whether it is known to a
  /// coordinator, which has committed it.
  var onEntry: ((_ isCommitted: Bool) -> Void)? { get set }
  /// The current state as it is published, or `nil` before the start.
  func lastStep() -> FeedEntry?
}

/// A content whose steps can be followed: counted by their transitions, and told each.
protocol TracesSteps: NodeContent {
  /// Counts transitions from now on, or does so no longer.
  func count(_ counts: Bool)
  /// How often each transition was taken since that; `nil` where they are not counted.
  var transitions: TransitionCounts? { get }
  /// Tells each step to a feed from now on, or to none.
  func tellSteps(to feed: Feed?)
  /// Reports each event that it refuses or postpones to a feed from now on, or to none.
  func reportRefusals(to feed: Feed?)
}

extension TakesSteps {
  func lastSteps() -> [FeedEntry] { lastStep().map { [$0] } ?? [] }
}

/// A content that pipes lead to or from, and that takes what has come in turns.
protocol TakesInputs: NodeContent {
  /// Joins the content to its pipes. Throws where a port is not the content's.
  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws
  /// Joins pipes that lead from the content while it runs.
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws
  /// Gives the content what it needs beside its pipes; after ``connect(outs:ins:)``.
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws
  /// Queues events that a pipe has delivered.
  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError)
  /// Takes queued inputs, a bounded number of them.
  func takeTurn()
  /// Whether a turn would take something.
  var hasWork: Bool { get }
}

extension TakesInputs {
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    throw NodeProblem("it takes its pipes when it starts")
  }
}

/// A content that clients may send events to.
protocol TakesRequests: NodeContent {
  /// Takes an event that a client sends; answers once, now or when the step is recorded.
  /// - Parameter oldest: The client waits for no answer to a request before this one.
  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, reply: @escaping Reply)
}

/// A content that keeps the events that it cannot apply.
protocol HasDeadLetters: NodeContent {
  /// Applies the event of a dead letter, or drops it; answers once.
  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply)
}

/// A content that tells what is enabled.
protocol AnswersQuestions: NodeContent {
  /// Tells what would be said to an event, or to all where the body is empty; answers once.
  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping Reply)
}

/// A content that takes events together with others.
protocol TakesPart: NodeContent {
  /// Its part in synchronized events, where it has one.
  var participant: Participant? { get }
}

/// A content that has events taken by others together.
protocol Coordinates: NodeContent {
  /// Takes a synchronized event, or a question about one; answers once.
  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, reply: @escaping Reply)
  /// It is to stop soon: begins nothing that takes its time.
  func prepareToStop()
  /// Whether nothing is under way that others wait for, and that may end soon.
  var mayStop: Bool { get }
}

/// A content whose steps are shown and answered after their record, where there is a journal.
protocol RecordsSteps: NodeContent {
  /// Whether there is something that the journal lacks.
  var hasUnrecorded: Bool { get }
  /// Whether the journal has something that need not be kept: written at the end, if not before.
  var hasLeftover: Bool { get }
  /// Writes what the journal lacks.
  func record(into journal: Journal) throws
  /// What was taken is recorded, or needs no record: answers clients and starts effects.
  func becameRecorded()
}

/// A content in each of its roles, or `nil` for those that it does not have.
///
/// A conformance answers for itself, below. To ask with `as?` would be to have the runtime go through all
/// conformances of the process, once for each role: a good part of a node's start.
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

/// Stands in for a content that could not be made, so that the node can say why.
final class UnableContent: NodeContent {
  /// Why it cannot run, where no other start can help.
  let problem: String?
  let description = MachineDescription(machine: "")

  init(problem: String?) { self.problem = problem }

  func start() {}
  func stop() {}
  func fill(_ status: inout NodeStatus) {}
}

/// What a node's shell does for its content, on the loop's thread.
struct NodeServices {
  let loop: PollLoop
  let context: Context
  /// The node in whose process it lives; `nil` where it has one of its own.
  let host: NeighbouringNode?
  /// Where its peers are; `nil` where it is on one host with them.
  let neighbours: Neighbours?
  /// Does at once what the end of a turn does: records what was taken, and takes what waits. Returns
  /// `false` where that has ended the node.
  let finishTurn: () -> Bool
  /// Sends a frame to who is connected to the inbox, by its routing id.
  let send: (FrameHeader, [UInt8], _ peer: [UInt8]) -> Socket.Sent
  /// Cuts the connections at the inbox, as a failing network would.
  let cut: () -> Void
  /// Shows an entry to the feed's subscribers, if there are any, with the next record.
  let publish: (_ entry: () -> FeedEntry?) -> Void
}
