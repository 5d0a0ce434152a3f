import PipeJournal
import PipeMachines
import PipeWire

/// A content as the shell of its node sees it: by the roles that it conforms to.
///
/// No role is passed on by hand: what a content conforms to is found here, and what it does not have
/// is answered here. What each step goes through is called by functions that are made where the
/// content's type is known, and so compiled for its machine's types; the witnesses of a generic
/// class's conformance, which are one for all machines, are not.
struct HostedContent: _HostedMachine {
  private let content: any NodeContent
  let inputs: InputCalls?
  let steps: StepCalls?
  let records: RecordCalls?
  private let piped: (any TakesInputs)?
  private let stepping: (any TakesSteps)?
  private let recorder: (any RecordsSteps)?
  private let unable: (any CannotRun)?
  private let ending: (any EndsByItself)?
  private let shown: (any ShowsStates)?
  private let requested: (any TakesRequests)?
  private let letters: (any HasDeadLetters)?
  private let questioned: (any AnswersQuestions)?
  private let joining: (any TakesPart)?
  private let coordinator: (any Coordinates)?

  /// A content whose frequent calls go through its conformance.
  init(_ content: any NodeContent) {
    self.init(
      content, (content as? any TakesInputs).map { InputCalls($0) },
      (content as? any TakesSteps).map { StepCalls($0) },
      (content as? any RecordsSteps).map { RecordCalls($0) })
  }

  /// A content with its frequent calls, which are made where its type is known, and so compiled for it.
  @export(interface)
  init(
    _ content: any NodeContent, _ inputs: InputCalls?, _ steps: StepCalls?, _ records: RecordCalls?
  ) {
    self.content = content
    self.inputs = inputs
    self.steps = steps
    self.records = records
    piped = content as? any TakesInputs
    stepping = content as? any TakesSteps
    recorder = content as? any RecordsSteps
    unable = content as? any CannotRun
    ending = content as? any EndsByItself
    shown = content as? any ShowsStates
    requested = content as? any TakesRequests
    letters = content as? any HasDeadLetters
    questioned = content as? any AnswersQuestions
    joining = content as? any TakesPart
    coordinator = content as? any Coordinates
  }
}

/// The calls of ``TakesInputs`` that each turn makes.
struct InputCalls {
  typealias Accept = (
    UnsafeRawBufferPointer, _ count: UInt32, _ skipping: Int, _ first: UInt64, InPipe
  ) throws(FrameError) -> Void

  let accept: Accept
  let takeTurn: () -> Void
  let hasWork: () -> Bool
}

extension InputCalls {
  @export(interface)
  init(_ content: any TakesInputs) {
    accept = { body, count, skipping, first, pipe throws(FrameError) in
      try content.accept(body, count: count, skipping: skipping, first: first, from: pipe)
    }
    takeTurn = { content.takeTurn() }
    hasWork = { content.hasWork }
  }
}

/// The call of ``TakesSteps`` that each step makes.
struct StepCalls {
  let lastStep: () -> FeedEntry?
}

extension StepCalls {
  @export(interface)
  init(_ content: any TakesSteps) { lastStep = { content.lastStep() } }
}

/// The calls of ``RecordsSteps`` that each turn makes.
struct RecordCalls {
  let hasUnrecorded: () -> Bool
  let record: (Journal) throws -> Void
  let becameRecorded: () -> Void
}

extension RecordCalls {
  @export(interface)
  init(_ content: any RecordsSteps) {
    hasUnrecorded = { content.hasUnrecorded }
    record = { try content.record(into: $0) }
    becameRecorded = { content.becameRecorded() }
  }
}

// What each turn asks for.
extension HostedContent {
  var hasWork: Bool { inputs?.hasWork() == true }
  var hasUnrecorded: Bool { records?.hasUnrecorded() == true }
  func takeTurn() { inputs?.takeTurn() }
  func becameRecorded() { records?.becameRecorded() }
}

// What is asked for seldom.
extension HostedContent {
  var description: MachineDescription { content.description }
  /// Why the node cannot run, where no other start can help.
  var problem: String? { unable?.problem }
  var participant: Participant? { joining?.participant }
  /// The current states of all that it publishes.
  var lastSteps: [FeedEntry] { shown?.lastSteps() ?? [] }
  /// Whether the journal has something that need not be kept.
  var hasLeftover: Bool { recorder?.hasLeftover == true }

  func start() { content.start() }
  func stop() { content.stop() }
  func fill(_ status: inout NodeStatus) { content.fill(&status) }

  /// Begins nothing any more that takes its time.
  func prepareToStop() { coordinator?.prepareToStop() }

  /// Whether nothing is under way that others wait for, and that may end soon.
  var mayStop: Bool { participant?.isFrozen != true && coordinator?.mayStop != false }

  /// Says whom to tell of entries, and of the end.
  func observe(
    onEntry: @escaping (_ isCommitted: Bool) -> Void, onEnd: @escaping (String?) -> Void
  ) {
    stepping?.onEntry = onEntry
    ending?.onEnd = onEnd
  }

  /// Joins the content to its pipes, and to its node.
  func connect(
    outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe], services: NodeServices,
    _ configuration: NodeConfiguration
  ) throws {
    if let unable { throw NodeProblem(unable.problem ?? "it cannot run") }
    guard let piped else {
      guard outs.isEmpty, ins.isEmpty else {
        throw NodeProblem("'\(description.machine)' neither sends nor takes events")
      }
      return
    }
    try piped.connect(outs: outs, ins: ins)
    try piped.attach(to: services, configuration)
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64,
    reply: @escaping (RequestReply) -> Void
  ) {
    if let requested { return requested.request(body, key: key, oldest: oldest, reply: reply) }
    reply(
      .invalid(
        coordinator == nil
          ? "it takes no events" : "it is a composite, whose events come as 'synchronize'"))
  }

  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, from peer: [UInt8],
    reply: @escaping (RequestReply) -> Void
  ) {
    guard let coordinator else { return reply(.invalid("it is no composite")) }
    coordinator.synchronize(header, body, from: peer, reply: reply)
  }

  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping (RequestReply) -> Void) {
    guard let letters else { return reply(.invalid("it has no dead letters")) }
    letters.deadLetter(id, drops: drops, reply: reply)
  }

  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void) {
    guard let questioned else { return reply(.invalid("it takes no events")) }
    questioned.explain(body, reply: reply)
  }
}
