import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// A client of a running topology: reads its states, sends it events, controls its nodes.
///
/// Any number of clients may attach and detach at any time; the nodes do not notice.
public final class TopologyClient: Sendable {
  /// The topology's name.
  public let topology: String
  /// The topology, if it runs on another host.
  package let remote: RemoteTopology?
  private let thread: LoopThread
  let shared: Shared
  /// The longest wait for an answer, if a call gives no other timeout.
  let answerTimeout: Duration

  /// State that the loop's thread and callers share.
  final class Shared: Sendable {
    struct State {
      // Used on the loop's thread only. The mutex hands it over.
      var sockets: LoopOwned<ClientSockets>?
      /// The closures that end the streams, by the ids of their watches.
      var streams: [UInt64: @Sendable () -> Void] = [:]
      /// Nodes that have answered a request. Their endpoints stay the same for as long as the
      /// topology runs.
      var known: [String: NodeInformation] = [:]
      /// The callers that wait for the next directory, and whether a request for one is in flight.
      var awaitingDirectory: [CheckedContinuation<TopologyDirectory, any Error>] = []
      var isRequestingDirectory = false
      var isClosed = false
      /// Whether the orchestrator can no longer be reached, and has not reported the end of the topology.
      var isLost = false
    }
    let state = Locked(State())
  }

  /// Attaches to the orchestrator at a control endpoint.
  /// - Parameter keys: The keys for nodes that are bound for other hosts; `nil` for none.
  package init(
    topology: String, control: String, keys: ClientKeys? = nil,
    answerTimeout: Duration = .seconds(5)
  ) throws {
    self.topology = topology
    self.answerTimeout = answerTimeout
    remote = keys?.remote
    let shared = Shared()
    let failure = Locked<(any Error)?>(nil)
    thread = LoopThread { loop in
      do {
        let sockets = try ClientSockets(
          topology: topology, control: control, keys: keys, patience: answerTimeout, loop: loop)
        sockets.control.onGone = { hasReportedEnd in
          shared.state.withLock { $0.isLost = !hasReportedEnd }
          shared.endStreams()
        }
        let owned = LoopOwned(sockets)
        shared.state.withLock { $0.sockets = owned }
      } catch {
        failure.withLock { $0 = error }
        loop.stop()
      }
    }
    self.shared = shared
    if let error = failure.withLock({ $0 }) { throw error }
  }

  deinit { close() }

  /// An executor that runs tasks on the client's own thread, between the client's own work.
  ///
  /// A task that prefers it switches threads less often for a request, and gets the answer sooner.
  /// Such a task must not block: the client can then neither send nor receive.
  public var executor: any TaskExecutor { LoopExecutor(thread.handle) }

  /// Detaches. Pending calls fail with ``TopologyClientError/closed``, and streams end.
  public func close() {
    let wasClosed = shared.state.withLock { state in
      defer { state.isClosed = true }
      return state.isClosed
    }
    guard !wasClosed else { return }
    shared.endStreams()
    let shared = shared
    thread.handle.post {
      shared.runOnLoop { $0.close() }
      shared.state.withLock { $0.sockets = nil }
    }
    thread.join()
  }

  // MARK: The directory

  /// Returns the current topology, with a new report of each running node.
  public func directory() async throws -> TopologyDirectory {
    try await directory(fresh: true)
  }

  package func directory(fresh: Bool) async throws -> TopologyDirectory {
    try await command(.directory(fresh: fresh)).take {
      if case .directory(let directory) = $0 { directory } else { nil }
    }
  }

  /// Returns a directory that is not older than the call. All callers that wait during one request
  /// share the next directory.
  func sharedDirectory() async throws -> TopologyDirectory {
    try await withCheckedThrowingContinuation { continuation in
      let isFirst = shared.state.withLock { state in
        state.awaitingDirectory.append(continuation)
        defer { state.isRequestingDirectory = true }
        return !state.isRequestingDirectory
      }
      if isFirst { Task { await self.requestDirectory() } }
    }
  }

  private func requestDirectory() async {
    while true {
      let waiting = shared.state.withLock { state in
        defer { state.awaitingDirectory = [] }
        if state.awaitingDirectory.isEmpty { state.isRequestingDirectory = false }
        return state.awaitingDirectory
      }
      if waiting.isEmpty { return }
      let result: Result<TopologyDirectory, any Error>
      do { result = .success(try await directory(fresh: false)) } catch { result = .failure(error) }
      for continuation in waiting { continuation.resume(with: result) }
    }
  }

  package func node(_ name: String, in directory: TopologyDirectory) throws -> NodeInformation {
    guard let node = directory[node: name] else {
      throw TopologyClientError.unknownNode(name, known: directory.nodes.map(\.name))
    }
    return node
  }

  /// Sends a command that the orchestrator answers at once.
  package func command(_ command: ControlCommand) async throws -> ControlAnswer {
    try await self.command(
      command, timeout: answerTimeout, timeoutError: .notAnswering(topology, after: answerTimeout))
  }

  /// Sends a command that takes time.
  /// - Parameter timeoutError: The error if the command is not done in time.
  package func command(
    _ command: ControlCommand, timeout: Duration, timeoutError: TopologyClientError
  ) async throws -> ControlAnswer {
    try await call { sockets, resume in
      sockets.control.command(command, timeout: timeout, timeoutError: timeoutError, resume)
    }
  }

  // MARK: Events

  /// Sends an event to a node and waits for its outcome. Waits for a node that is being restarted.
  ///
  /// An event to an instance, such as `orders[4711]`, gets the instance's key in the field that is
  /// the node's key, unless the event has the field.
  ///
  /// At most 1,024 requests to a node are in flight. Further requests wait until some of these are
  /// answered, for as long as the node answers any.
  /// - Parameters:
  ///   - timeout: The longest wait for the answer, once the request is in flight; `nil`, the
  ///     default, is 5 s.
  ///   - includingState: Whether the answer contains the state after the step. Without it, the state
  ///     in the outcome is `null`, and a node with a large state answers several times faster.
  /// - Throws: ``TopologyClientError``; `unknownOutcome` if the node did not answer.
  /// - Note: If the node keeps a journal and dies before it answers, the event is sent to its next
  ///   process with the same number, and is applied once.
  @discardableResult
  public func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration? = nil,
    includingState: Bool = true
  ) async throws -> RequestOutcome {
    try await send(
      node, bytes: EventCodec().encode(event), timeout: timeout, includingState: includingState)
  }

  /// Sends an event given as JSON: a bare label as a string, or `{"label": {"field": value}}`.
  @discardableResult
  public func send(
    _ node: String, json event: JSONValue, timeout: Duration? = nil, includingState: Bool = true
  ) async throws -> RequestOutcome {
    try await send(node, bytes: event.bytes, timeout: timeout, includingState: includingState)
  }

  private func send(
    _ name: String, bytes: [UInt8], timeout: Duration?, includingState: Bool
  ) async throws -> RequestOutcome {
    guard bytes.count <= WireLimits.eventByteCount else {
      throw TopologyClientError.invalidEvent(
        name,
        "the event has \(bytes.count) bytes; the limit is \(WireLimits.eventByteCount); send a "
          + "reference to large data, such as a file path")
    }
    let timeout = timeout ?? answerTimeout
    if let instance = InstanceName(name) {
      return try await send(
        bytes, to: instance, timeout: timeout, includingState: includingState)
    }
    do {
      return try await request(
        name, .event(bytes, wantsState: includingState), timeout: timeout)
    } catch is CompositeRecipientError {
      let event = TransactionBody(composite: name, event: bytes).eventName ?? ""
      return try await request(
        acceptingNode(of: event, in: name), .event(bytes, wantsState: includingState),
        timeout: timeout)
    }
  }

  private func send(
    _ bytes: [UInt8], to instance: InstanceName, timeout: Duration,
    includingState: Bool
  ) async throws -> RequestOutcome {
    guard let (_, node) = try self.instance(instance.description, in: await sharedDirectory()),
      let field = node.instanceField
    else { throw TopologyClientError.unknownNode(instance.node, known: []) }
    let event = instance.event(try JSONValue(parsing: bytes), keyedBy: field)
    return try await request(
      instance.node, .event(event.bytes, wantsState: includingState), timeout: timeout)
  }

  // MARK: States

  /// Returns the states of some nodes, or of all: first the current state of each, then its changes.
  ///
  /// A name may be the name of an instance, such as `orders[4711]`. An instance that does not exist
  /// yet has no current state.
  ///
  /// If a consumer is slower than the nodes, the oldest buffered changes of a node are dropped. The
  /// node's next change says how many were missed.
  /// - Parameters:
  ///   - states: Every state, which is the default, or the latest only.
  ///   - reportingInDoubt: Whether to report ``StateChange/doubts``; for composites, the doubts of
  ///     their nodes. A state then comes again, with the same version, when a doubt begins or ends.
  public func states(
    of nodes: [String]? = nil, _ states: WatchedStates = .every, reportingInDoubt: Bool = false
  ) async throws -> StateStream {
    let directory = try await directory(fresh: false)
    let instances = try (nodes ?? []).compactMap { try instance($0, in: directory) }
    let instanceNames = Set(instances.map(\.name.description))
    let chosen =
      try nodes?.filter { !instanceNames.contains($0) }.map { try node($0, in: directory) }
      ?? directory.nodes.filter { $0.kind != .monitor }
    let buffer = StateStreamBuffer()
    let names = Set(chosen.map(\.name))
    let hasComposites = reportingInDoubt && chosen.contains { $0.kind == .composite }
    let inDoubtRecords = InDoubtRecords(
      shown: names, classes: hasComposites ? try await conflictClasses() : [],
      receivesEveryState: states == .every)
    // Composites that share participants share a feed.
    let feeds = Set(chosen.map(\.feedName)).union(
      inDoubtRecords.nodes.compactMap { directory[node: $0]?.feedName })
    let locked = Locked(inDoubtRecords)
    let stop = try await follow(ending: { buffer.end() }) { sockets in
      try sockets.watch(Array(feeds), states, reportsInDoubt: reportingInDoubt) { change in
        for shown in locked.withLock({ $0.take(change) }) { buffer.append(shown) }
      }
    }
    guard !instances.isEmpty else { return StateStream(buffer: buffer, onEnd: stop) }
    let stopInstances = try await follow(instances, into: buffer)
    return StateStream(buffer: buffer) {
      stop()
      stopInstances()
    }
  }

  /// Starts to read feeds.
  /// - Parameters:
  ///   - end: Called when no more messages come: the topology has gone down, or the client is closed.
  ///   - begin: Starts a watch, and returns its id.
  /// - Returns: A closure that ends the watch.
  func follow(
    ending end: @escaping @Sendable () -> Void,
    _ begin: @escaping @Sendable (ClientSockets) throws -> UInt64
  ) async throws -> @Sendable () -> Void {
    let id: UInt64 = try await call { sockets, resume in
      do {
        resume(.success(try begin(sockets)))
      } catch {
        resume(.failure(.failed("the feeds cannot be read: \(error)")))
      }
    }
    let isClosed = shared.state.withLock { state in
      if !state.isClosed { state.streams[id] = end }
      return state.isClosed
    }
    if isClosed { end() }
    let shared = shared
    let handle = thread.handle
    return {
      shared.state.withLock { _ = $0.streams.removeValue(forKey: id) }
      handle.post { shared.runOnLoop { $0.unwatch(id) } }
    }
  }

  /// Runs a closure on the client's own thread, unless the client is closed.
  func post(_ body: @escaping @Sendable (ClientSockets) -> Void) {
    let shared = shared
    thread.handle.post { shared.runOnLoop(body) }
  }

  /// Waits until a node is in a state that satisfies the predicate, and returns that change.
  public func wait(
    for node: String, within timeout: Duration,
    until accepts: @escaping @Sendable (JSONValue) -> Bool
  ) async throws -> StateChange {
    let stream = try await states(of: [node])
    let found = try await withTimeout(timeout) {
      for await change in stream where accepts(change.state) { return change as StateChange? }
      return nil
    }
    switch found {
    case .some(.some(let change)): return change
    case .some(.none): throw TopologyClientError.orchestratorGone(topology)
    case .none: throw TopologyClientError.timedOut("waiting for a state of node '\(node)'")
    }
  }

  func call<Value: Sendable>(
    _ body:
      @escaping @Sendable (
        ClientSockets, @escaping @Sendable (Result<Value, TopologyClientError>) -> Void
      ) -> Void
  ) async throws -> Value {
    guard !shared.state.withLock({ $0.isClosed }) else { throw TopologyClientError.closed }
    let shared = shared
    let handle = thread.handle
    return try await withCheckedThrowingContinuation { continuation in
      handle.post {
        // Each call is answered exactly once, even if it comes after the end.
        let isOpen = shared.runOnLoop { sockets in body(sockets) { continuation.resume(with: $0) } }
        if !isOpen { continuation.resume(throwing: TopologyClientError.closed) }
      }
    }
  }
}

extension TopologyClient.Shared {
  /// Runs a closure. To be called on the loop's thread only. Returns `false` if the client is closed.
  @discardableResult
  func runOnLoop(_ body: (ClientSockets) -> Void) -> Bool {
    guard let owned = state.withLock({ $0.sockets }) else { return false }
    body(owned.value)
    return true
  }

  func endStreams() {
    let streams = state.withLock { state in
      defer { state.streams = [:] }
      return state.streams.values
    }
    for end in streams { end() }
  }
}

extension TopologyClient {
  /// Attaches to a running topology by its name, or to the only running topology.
  /// - Throws: ``TopologyClientError``: `notRunning`, or `ambiguous` if several topologies run.
  public static func attach(to name: String? = nil) throws -> TopologyClient {
    let directories = try RunningTopology.choose(name)
    return try TopologyClient(
      topology: directories.topology, control: directories.endpoint(.control),
      keys: ClientKeys(in: directories))
  }
}

extension TopologyClient {
  /// Attaches to a topology that runs on another host.
  ///
  /// Returns before the orchestrator has answered. If there is no answer within 5 s, or the
  /// orchestrator rejects the key, calls throw ``TopologyClientError/unreachable(_:_:)``. If the
  /// connection breaks later, the client waits 10 s for it to recover.
  /// - Parameters:
  ///   - endpoint: The orchestrator's endpoint as reached from here, `tcp://HOST:PORT`. The host
  ///     may be a name, which is resolved for each connection. `nil` is the endpoint in the key file.
  ///   - path: A copy of the file `client.key` in the runtime directory of the run, of mode 600.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``
  public static func attach(
    to endpoint: String? = nil, key path: String
  ) throws -> TopologyClient {
    try attach(to: .remote(RemoteTopology(key: path, at: endpoint)))
  }

  /// Attaches to a running topology, wherever it runs.
  package static func attach(to target: TopologyTarget) throws -> TopologyClient {
    switch target {
    case .local(let name): try attach(to: name)
    case .remote(let topology):
      try TopologyClient(
        topology: topology.name, control: topology.endpoint, keys: ClientKeys(topology))
    }
  }
}

extension TopologyClient {
  /// The command-line options that name the topology: `-p NAME`, or `--key FILE` from another host.
  package var targetOptions: String {
    guard let remote else { return "-p \(topology)" }
    return "--key \(remote.path)" + (remote.isRedirected ? " --connect \(remote.endpoint)" : "")
  }

  /// The error for a lost connection to an orchestrator on another host that has not reported the
  /// end of the topology: the topology may continue.
  package var connectionLossError: TopologyClientError? {
    guard let remote, shared.state.withLock({ $0.isLost }) else { return nil }
    return .unreachable(remote.endpoint, .broken)
  }

  /// Why the orchestrator can no longer be reached, with what to do about it; `nil` if the topology
  /// has gone down. Blocks the thread for a second at most, while an ending orchestrator holds its lock.
  package var orchestratorLossError: TopologyClientError? {
    if remote != nil { return connectionLossError }
    do {
      let directories = try RunningTopology.choose(topology)
      let orchestrator = RunningTopology.find(directories)?.process
      if RunningTopology.awaitEnd(of: directories, orchestrator, until: .now + .seconds(1)) {
        _ = try RunningTopology.choose(topology)
      }
      return .orchestratorGone(topology)
    } catch TopologyClientError.orphaned(let name, let nodes, let file, let deployment) {
      return .orphaned(name, nodes: nodes, file: file, deployment: deployment)
    } catch {
      return nil
    }
  }
}

extension RunningTopology {
  /// Returns the directories of the running topology with this name, or of the only running topology.
  package static func choose(_ name: String?) throws -> RuntimeDirectories {
    let roots = RuntimeRoots()
    if let name {
      let directories = try RuntimeDirectories(topology: name, roots: roots)
      guard find(directories) != nil else {
        if let orphan = OrphanedTopology.find(directories) { throw orphan.error }
        throw TopologyClientError.notRunning(name, running: all(in: roots).map(\.name))
      }
      return directories
    }
    let names = all(in: roots).map(\.name)
    switch names.count {
    case 0:
      let orphans = OrphanedTopology.all(in: roots)
      if orphans.count == 1 { throw orphans[0].error }
      if orphans.count > 1 { throw TopologyClientError.ambiguous(orphans.map(\.name)) }
      throw TopologyClientError.noneRunning
    case 1: return try RuntimeDirectories(topology: names[0], roots: roots)
    default: throw TopologyClientError.ambiguous(names.sorted())
    }
  }
}

extension OrphanedTopology {
  fileprivate var error: TopologyClientError {
    .orphaned(
      name, nodes: nodes.map(\.node), file: file,
      deployment: deployment ?? (isDeployed ? "DEPLOYMENT" : nil))
  }
}
