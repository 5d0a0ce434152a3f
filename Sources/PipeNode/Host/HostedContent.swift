import PipeJournal
import PipeMachines
import PipeTransport
import PipeWire

/// A node's content as the shell of the node sees it: through the roles that the content conforms
/// to.
///
/// A content has the roles of its conformances. For all other roles, this type answers.
struct HostedContent: _HostedMachine {
  private let content: any NodeContent
  let calls: FrequentCalls
  private let participatingContent: (any ParticipatingContent)?

  /// A content whose frequent calls go through its conformance.
  init(_ content: any NodeContent) { self.init(content, FrequentCalls(content)) }

  @export(interface)
  init(_ content: any NodeContent, _ calls: FrequentCalls) {
    self.content = content
    self.calls = calls
    participatingContent = content.asParticipating
  }
}

/// The calls that each turn and step makes to a content. A call does nothing for a role that the
/// content does not have.
///
/// A hosted machine makes these functions where its type is known, so that they are compiled for
/// it. The witnesses of a generic class's conformance are shared by all machines, and not compiled
/// for one.
struct FrequentCalls {
  typealias Accept = (ArrivedEvents, InPipe) throws(FrameError) -> Void

  // Of `PipedContent`.
  var accept: Accept = { _, _ in }
  var takeTurn: () -> Void = {}
  var hasWork: () -> Bool = { false }
  // Of `SteppingContent`.
  var lastStep: () -> FeedEntry? = { nil }
  // Of `JournaledContent`.
  var hasUnrecordedChanges: () -> Bool = { false }
  var record: (Journal) throws -> Void = { _ in }
  var didRecord: () -> Void = {}
}

extension FrequentCalls {
  @export(interface)
  init(_ content: any NodeContent) {
    if let content = content.asPiped {
      accept = { events, pipe throws(FrameError) in try content.accept(events, from: pipe) }
      takeTurn = { content.takeTurn() }
      hasWork = { content.hasWork }
    }
    if let content = content.asStepping { lastStep = { content.lastStep() } }
    if let content = content.asJournaled {
      hasUnrecordedChanges = { content.hasUnrecordedChanges }
      record = { try content.record(into: $0) }
      didRecord = { content.didRecord() }
    }
  }
}

// Calls in each turn.
extension HostedContent {
  var hasWork: Bool { calls.hasWork() }
  var hasUnrecordedChanges: Bool { calls.hasUnrecordedChanges() }
  var participant: Participant? { participatingContent?.participant }
  func takeTurn() { calls.takeTurn() }
  func didRecord() { calls.didRecord() }
}

// Infrequent calls.
extension HostedContent {
  var description: MachineDescription { content.description }
  /// The permanent reason why the node cannot run: no restart helps. Otherwise `nil`.
  var problem: String? { (content as? FailedContent)?.problem }
  /// The current states of the nodes that the content publishes.
  var lastSteps: [FeedEntry] { content.asStatePublishing?.lastSteps() ?? [] }
  /// Whether the journal has records that need not be kept.
  var hasObsoleteRecords: Bool { content.asJournaled?.hasObsoleteRecords == true }

  /// How often each transition was taken since counting began; `nil` if transitions are not
  /// counted.
  var transitions: TransitionCounts? { content.asTraceable?.transitions }

  /// Traces steps as far as subscribers ask for that.
  func trace(to feed: Feed) {
    guard let content = content.asTraceable else { return }
    content.count(feed.hasSummarySubscriber)
    content.reportSteps(to: feed.hasStepSubscriber ? feed : nil)
    content.reportRefusals(to: feed.hasRefusalSubscriber ? feed : nil)
  }

  func publishInstances(to feed: Feed) {
    content.asInstancePublishing?.publishInstances(to: feed)
  }

  func start() { content.start() }
  func stop() { content.stop() }
  func fill(_ status: inout NodeStatus) { content.fill(&status) }

  /// Prepares the content to stop soon: it begins no more long operations.
  func prepareToStop() { content.asCoordinating?.prepareToStop() }

  /// Whether nothing is in progress that others wait for and that may end soon.
  var mayStop: Bool {
    participant?.isFrozen != true && content.asCoordinating?.mayStop != false
  }

  /// Sets the callbacks for entries into states and for the end.
  func observe(
    onEntry: @escaping (_ isCommitted: Bool) -> Void, onEnd: @escaping (String?) -> Void
  ) {
    content.asStepping?.onEntry = onEntry
    content.asSelfEnding?.onEnd = onEnd
  }

  /// Connects the content to its pipes and to its node.
  func connect(
    outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe], services: NodeServices,
    _ configuration: NodeConfiguration
  ) throws {
    if let failedContent = content as? FailedContent {
      throw NodeSetupError(failedContent.problem ?? "the node cannot run")
    }
    guard let piped = content.asPiped else {
      guard outs.isEmpty, ins.isEmpty else {
        throw NodeSetupError("'\(description.machine)' neither sends nor accepts events")
      }
      return
    }
    try piped.connect(outs: outs, ins: ins)
    try piped.attach(to: services, configuration)
  }

  /// Connects the content to pipes that start at it and are added while it runs.
  func extend(by outs: [(NodeConfiguration.Out, OutPipe)]) throws {
    guard let piped = content.asPiped else {
      throw NodeSetupError("'\(description.machine)' neither sends nor accepts events")
    }
    try piped.extend(by: outs)
  }

  func request(
    _ body: UnsafeRawBufferPointer, key: RequestKey, oldest: UInt64, wantsState: Bool,
    reply: @escaping Reply
  ) {
    if let content = content.asRequestable {
      return content.request(
        body, key: key, oldest: oldest, wantsState: wantsState, reply: reply)
    }
    reply(
      .invalid(
        content.asCoordinating != nil
          ? "the node is a composite; send its events as 'synchronize'"
          : "the node accepts no "
            + "events"))
  }

  func synchronize(
    _ header: FrameHeader, _ body: UnsafeRawBufferPointer, reply: @escaping Reply
  ) {
    guard let content = content.asCoordinating else {
      return reply(.invalid("the node is not a composite"))
    }
    content.synchronize(header, body, reply: reply)
  }

  func deadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard let content = content.asDeadLettering else {
      return reply(.invalid("the node has no dead letters"))
    }
    content.deadLetter(id, drops: drops, reply: reply)
  }

  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply) {
    guard let content = content.asExplainable else {
      return reply(.invalid("the node accepts no events"))
    }
    content.explain(body, of: key, reply: reply)
  }
}

/// The environment that a node gives to the machine that it hosts.
package struct HostingContext: _Hosting {
  let parameters: JSONValue
  let log: NodeLog
  let loop: LoopHandle
  let topology: String
  let node: String
  let incarnation: UInt64
  let journal: Journal?
  /// The settings of a node with a `key`; `nil` if the node has one machine.
  let instances: NodeArguments.Instances?

  /// Returns the environment that a machine was given. Throws if another runtime made it.
  static func of(_ machine: String, _ hosting: any _Hosting) throws -> HostingContext {
    if let hosting = hosting as? HostingContext { return hosting }
    throw NodeSetupError("machine '\(machine)' must be hosted by another runtime")
  }
}
