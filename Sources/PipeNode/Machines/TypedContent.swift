import PipeJournal
import PipeMachines
import PipeWire

/// A content whose frequent calls go straight to code compiled for its machine's types.
final class TypedContent: NodeContent, _HostedMachine {
  typealias Accept = (
    UnsafeRawBufferPointer, _ count: UInt32, _ skipping: Int, _ first: UInt64, InPipe
  ) throws(FrameError) -> Void

  private let content: any NodeContent
  private let acceptEvents: Accept
  private let turn: () -> Void
  private let hasEvents: () -> Bool
  private let step: () -> FeedEntry?
  private let lacksRecord: () -> Bool
  private let write: (Journal) throws -> Void
  private let afterRecord: () -> Void

  init(
    _ content: any NodeContent, accept: @escaping Accept, takeTurn: @escaping () -> Void,
    hasWork: @escaping () -> Bool, lastStep: @escaping () -> FeedEntry?,
    hasUnrecorded: @escaping () -> Bool, record: @escaping (Journal) throws -> Void,
    becameRecorded: @escaping () -> Void
  ) {
    lacksRecord = hasUnrecorded
    write = record
    afterRecord = becameRecorded
    self.content = content
    acceptEvents = accept
    turn = takeTurn
    hasEvents = hasWork
    step = lastStep
  }

  func accept(
    _ body: UnsafeRawBufferPointer, count: UInt32, skipping: Int, first: UInt64, from pipe: InPipe
  ) throws(FrameError) { try acceptEvents(body, count, skipping, first, pipe) }

  func takeTurn() { turn() }
  var hasWork: Bool { hasEvents() }
  func lastStep() -> FeedEntry? { step() }
  var hasUnrecorded: Bool { lacksRecord() }
  func record(into journal: Journal) throws { try write(journal) }
  func becameRecorded() { afterRecord() }

  // MARK: Seldom

  var description: MachineDescription { content.description }

  var onEntry: ((_ isCommitted: Bool) -> Void)? {
    get { content.onEntry }
    set { content.onEntry = newValue }
  }

  var onEnd: ((String?) -> Void)? {
    get { content.onEnd }
    set { content.onEnd = newValue }
  }

  func connect(outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe]) throws {
    try content.connect(outs: outs, ins: ins)
  }

  func attach(to services: NodeServices, _ configuration: NodeConfiguration) throws {
    try content.attach(to: services, configuration)
  }

  var participant: Participant? { content.participant }

  func markPrepared(in journal: Journal) { content.participant?.markPrepared(in: journal) }
  func start() { content.start() }
  func stop() { content.stop() }
  func fill(_ status: inout NodeStatus) { content.fill(&status) }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64,
    reply: @escaping (RequestReply) -> Void
  ) { content.request(body, key: key, oldest: oldest, reply: reply) }

  func letter(_ id: UInt64, drops: Bool, reply: @escaping (RequestReply) -> Void) {
    content.letter(id, drops: drops, reply: reply)
  }

  func explain(_ body: UnsafeRawBufferPointer, reply: @escaping (RequestReply) -> Void) {
    content.explain(body, reply: reply)
  }
}
