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
  var participation: Participation? { get }
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
  func promise(in journal: Journal)
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
  var participation: Participation? { nil }
  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {}
  func lastSteps() -> [FeedEntry] { lastStep().map { [$0] } ?? [] }
  func prepareToStop() {}
  var mayStop: Bool { participation?.isFrozen != true }

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

  func promise(in journal: Journal) {}
  var hasUnrecorded: Bool { false }
  var hasLeftover: Bool { participation?.hasGivenUp == true }
  func record(into journal: Journal) {}
  func becameRecorded() {}
}

/// The answer to a client's request.
package enum RequestReply: Sendable {
  /// The event was taken: the version and the state after it.
  case moved(version: UInt64, state: [UInt8])
  /// The machine refused it in this state.
  case refused(Refusal, version: UInt64, state: [UInt8])
  /// The node takes no input now; the text says why.
  case busy(String)
  /// The bytes are not an event of the machine.
  case invalid(String)
  /// The node does not run.
  case unavailable(String)
  /// What was asked for is done; it was no step.
  case done
  /// What became of a synchronized event.
  case synchronized(RendezvousReply)
  /// What would be said to events, as JSON.
  case explained([UInt8])

  /// The code in the reply's header.
  package enum Code: UInt32, Sendable {
    case moved = 0, refused = 1, busy = 2, invalid = 3, unavailable = 4, done = 5, synchronized = 6
    case explained = 7
    /// A commit, as an effect of a participant is told of it.
    case committed = 8
  }

  /// The code, the version and the body of the frame.
  var parts: (code: Code, version: UInt64, body: [UInt8]) {
    switch self {
    case .moved(let version, let state):
      return (.moved, version, Array(#"{"state":"#.utf8) + state + Array("}".utf8))
    case .refused(let refusal, let version, let state):
      // The state is JSON already, and joined to the rest as it is.
      var body = Array(JSONValue.object(refusal.members).bytes.dropLast())
      body += Array(#","state":"#.utf8)
      return (.refused, version, body + state + Array("}".utf8))
    case .busy(let text): return (.busy, 0, Self.error(text))
    case .invalid(let text): return (.invalid, 0, Self.error(text))
    case .unavailable(let text): return (.unavailable, 0, Self.error(text))
    case .done: return (.done, 0, [])
    case .synchronized(let reply): return (.synchronized, 0, reply.json.bytes)
    case .explained(let json): return (.explained, 0, json)
    }
  }

  private static func error(_ text: String) -> [UInt8] {
    JSONValue.object(["error": .string(text)]).bytes
  }
}
