import PipeJournal
import PipeMachines
import PipeWire

/// What a node hosts: a machine or a constant state. The shell knows it by bytes alone.
protocol NodeContent: AnyObject {
  /// What the content tells of itself.
  var description: MachineDescription { get }
  /// Why it cannot run, where no other start can help.
  var problem: String? { get }
  /// Joins the content to its pipes. Throws where a port is not the content's.
  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws
  /// Gives the content what it needs beside its pipes; after ``connect(outs:ins:)``.
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws
  /// Its part in synchronized events, where it has one.
  var participant: Participant? { get }
  /// Enters the initial state.
  func start()
  /// Queues events that a pipe has delivered, from the one at place `skipping` on.
  func accept(
    _ body: UnsafeRawBufferPointer, count: UInt32, skipping: Int, first: UInt64, from pipe: InPipe
  ) throws(FrameError)
  /// Takes an event that a client sends; answers once, now or when the step is recorded.
  /// - Parameter oldest: The client waits for no answer to a request before this one.
  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64,
    reply: @escaping (RequestReply) -> Void)
  /// Applies the event of a dead letter, or drops it.
  func letter(_ id: UInt64, drops: Bool, reply: @escaping (RequestReply) -> Void)
  /// Takes a synchronized event, or a question about one; answers once.
  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from peer: [UInt8],
    reply: @escaping (RequestReply) -> Void)
  /// Tells what would be said to an event, or to all where the body is empty; answers once.
  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void)
  /// Takes queued inputs, a bounded number of them.
  func takeTurn()
  /// Whether a turn would take something.
  var hasWork: Bool { get }
  /// The current state as it is published, or `nil` before the start.
  func lastStep() -> FeedEntry?
  /// The current states of all that it publishes.
  func lastSteps() -> [FeedEntry]
  /// Called on each entry, and where a recorded state is gone on from; with whether it is known to a
  /// coordinator, which has committed it.
  var onEntry: ((_ isCommitted: Bool) -> Void)? { get set }
  /// Called where the node must end by itself: with the reason of its failure, or `nil` where its
  /// work is done.
  var onEnd: ((String?) -> Void)? { get set }
  /// Fills in what the content knows.
  func fill(_ status: inout NodeStatus)
  /// It is to stop soon: begins nothing that takes its time.
  func prepareToStop()
  /// Whether nothing is under way that others wait for, and that may end soon.
  var mayStop: Bool { get }
  /// Ends effects; no input is taken any more.
  func stop()
  /// Makes durable what needs no record for that.
  func markPrepared(in journal: Journal)
  /// Whether there is something that the journal lacks.
  var hasUnrecorded: Bool { get }
  /// Whether the journal has something that needs not be kept: written at the end, if not before.
  var hasLeftover: Bool { get }
  /// Writes what the journal lacks.
  func record(into journal: Journal) throws
  /// What was taken is recorded, or needs no record: answers clients and starts effects.
  func becameRecorded()
}

// What records nothing and takes no events.
extension NodeContent {
  var problem: String? { nil }
  var participant: Participant? { nil }
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {}
  func lastSteps() -> [FeedEntry] { lastStep().map { [$0] } ?? [] }
  func prepareToStop() {}
  var mayStop: Bool { participant?.isFrozen != true }

  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from peer: [UInt8],
    reply: @escaping (RequestReply) -> Void
  ) {
    reply(.invalid("it is no composite"))
  }

  func letter(_ id: UInt64, drops: Bool, reply: @escaping (RequestReply) -> Void) {
    reply(.invalid("it has no dead letters"))
  }

  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void) {
    reply(.invalid("it takes no events"))
  }

  func markPrepared(in journal: Journal) {}
  var hasUnrecorded: Bool { false }
  var hasLeftover: Bool { participant?.hasAborted == true }
  func record(into journal: Journal) {}
  func becameRecorded() {}
}
