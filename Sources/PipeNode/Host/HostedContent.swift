import PipeJournal
import PipeMachines
import PipeTransport
import PipeWire

/// A wrapper of a node's content, through which ``NodeShell`` calls the content. Each call belongs
/// to a role that a content can have; see ``ContentRoles``.
///
/// If the content has the role, this type forwards the call to the content. Otherwise, it answers
/// the call itself.
struct HostedContent: _HostedMachine {
  private let content: any NodeContent
  let stepCallbacks: StepCallbacks
  private let participatingContent: (any ParticipatingContent)?

  /// Wraps a content. The content's protocol conformances determine the callbacks for frequent
  /// calls.
  init(_ content: any NodeContent) { self.init(content, StepCallbacks(content)) }

  @export(interface)
  init(_ content: any NodeContent, _ calls: StepCallbacks) {
    self.content = content
    self.stepCallbacks = calls
    participatingContent = content.asParticipating
  }
}

/// The functions of a content that the node calls in each turn or step, as closures. A closure does
/// nothing if the content does not have the closure's role.
///
/// Closures are faster than calls through a protocol, which would run generic code that all
/// machines share. The code that creates the closures knows the machine's type, so the compiler
/// specializes them for the machine.
struct StepCallbacks {
  typealias Accept = (ArrivedEvents, InPipe) throws(FrameError) -> Void

  // Calls of the role `PipedContent`.
  var accept: Accept = { _, _ in }
  var takeTurn: () -> Void = {}
  var hasWork: () -> Bool = { false }
  // Calls of the role `SteppingContent`.
  var lastStep: () -> PublishedState? = { nil }
  // Calls of the role `JournaledContent`.
  var hasUnrecordedChanges: () -> Bool = { false }
  var record: (Journal) throws -> Void = { _ in }
  var didRecord: () -> Void = {}
}

extension StepCallbacks {
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
  var hasWork: Bool { stepCallbacks.hasWork() }
  var hasUnrecordedChanges: Bool { stepCallbacks.hasUnrecordedChanges() }
  var participant: (any NodeParticipant)? { participatingContent?.nodeParticipant }
  func takeTurn() { stepCallbacks.takeTurn() }
  func didRecord() { stepCallbacks.didRecord() }
}

// Infrequent calls.
extension HostedContent {
  var description: MachineDescription { content.description }
  /// The reason why the node can never run, even after a restart; `nil` if there is none.
  var failureReason: String? { (content as? FailedContent)?.failureReason }
  /// The current states that the content publishes. See ``StatePublishingContent/lastSteps()``.
  var lastSteps: [PublishedState] { content.asStatePublishing?.lastSteps() ?? [] }
  /// Whether the journal contains records that can be deleted.
  var hasObsoleteRecords: Bool { content.asJournaled?.hasObsoleteRecords == true }

  /// The number of times that each transition has occurred since counting began; `nil` if
  /// transitions are not counted.
  var transitions: TransitionCounts? { content.asTraceable?.transitions }

  /// Counts transitions, and reports steps and refusals, as long as clients subscribe to them.
  func trace(to feed: Feed) {
    guard let content = content.asTraceable else { return }
    content.count(feed.hasSummarySubscriber)
    content.reportSteps(to: feed.hasStepSubscriber ? feed : nil)
    content.reportRefusals(to: feed.hasRefusalSubscriber ? feed : nil)
  }

  /// Writes the steps to the log of a recorded run.
  /// - Returns: Whether the content has steps that can be recorded.
  func logSteps(in log: StepLog) -> Bool {
    content.asTraceable?.logSteps(in: log) == true
  }

  func publishInstances(to feed: Feed) {
    content.asInstancePublishing?.publishInstances(to: feed)
  }

  func start() { content.start() }
  func stop() { content.stop() }
  func fill(_ status: inout NodeStatus) { content.fill(&status) }

  /// Prepares the content for a stop. After this call, the content begins no long operations.
  func prepareToStop() { content.asCoordinating?.prepareToStop() }

  /// Whether the node may stop now. `false` during an operation that other nodes wait for and that
  /// will probably end soon.
  var mayStop: Bool {
    participant?.isFrozen != true && content.asCoordinating?.mayStop != false
  }

  /// Sets the callbacks for entries into states and for the end of the content.
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
      throw NodeSetupError(failedContent.failureReason ?? "the node cannot run")
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

  /// Connects the content to outbound pipes that are added while the content runs.
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

  func resolveDeadLetter(_ id: UInt64, drops: Bool, reply: @escaping Reply) {
    guard let content = content.asDeadLettering else {
      return reply(.invalid("the node has no dead letters"))
    }
    content.resolveDeadLetter(id, drops: drops, reply: reply)
  }

  func explain(_ body: UnsafeRawBufferPointer, of key: String?, reply: @escaping Reply) {
    guard let content = content.asExplainable else {
      return reply(.invalid("the node accepts no events"))
    }
    content.explain(body, of: key, reply: reply)
  }
}

extension HostedContent {
  /// Handles a request to a gated node.
  func gate(_ body: UnsafeRawBufferPointer, reply: @escaping Reply) {
    guard let content = content.asGateable else {
      return reply(.invalid("nodes of this kind cannot be gated"))
    }
    do {
      try content.gate(JSONRecord.decode(GateRequest.self, from: body), reply: reply)
    } catch {
      reply(.invalid("the request to the gate cannot be read: \(error)"))
    }
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
  /// The settings of a keyed node; `nil` if the node has no instances.
  let instances: NodeArguments.Instances?

  /// Returns `hosting` as a ``HostingContext``, the environment that a node gives to its machine.
  /// - Throws: ``NodeSetupError`` if another runtime created the environment.
  static func of(_ machine: String, _ hosting: any _Hosting) throws -> HostingContext {
    if let hosting = hosting as? HostingContext { return hosting }
    throw NodeSetupError("machine '\(machine)' must be hosted by another runtime")
  }
}
