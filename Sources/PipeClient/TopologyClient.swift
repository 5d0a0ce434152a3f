import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// A client of a running topology, which reads states, sends events, and controls nodes.
///
/// Any number of clients can attach and detach at any time, without an effect on the nodes.
public final class TopologyClient: Sendable {
  /// The topology's name.
  public let topology: String
  /// The topology on another host; `nil` if the topology runs on this host.
  package let remote: RemoteTopology?
  private let thread: LoopThread
  let shared: Shared
  /// The maximum wait for an answer. A call can specify another timeout.
  let answerTimeout: Duration

  /// State that the loop's thread and callers share.
  final class Shared: Sendable {
    struct State {
      // Used only on the loop's thread. The lock serves to pass the reference to that thread.
      var sockets: LoopOwned<ClientSockets>?
      /// The closures that end the streams, by the ids of their watches.
      var streamEndHandlers: [UInt64: @Sendable () -> Void] = [:]
      /// The nodes that have answered a request, by name. The name of a node's inbox does not
      /// change while the topology runs.
      var knownNodes: [String: NodeInformation] = [:]
      /// The callers that wait for the next topology directory.
      var awaitingDirectory: [CheckedContinuation<TopologyDirectory, any Error>] = []
      var isRequestingDirectory = false
      var isClosed = false
      /// Whether the orchestrator can no longer be reached and has not reported that the topology
      /// has ended.
      var isLost = false
    }
    let state = Locked(State())
  }

  /// Attaches to the orchestrator at a control endpoint.
  /// - Parameter keys: The keys for nodes that accept connections from other hosts; `nil` if there
  ///   are no such nodes.
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

  /// An executor that runs tasks on the client's own thread, between the client's work.
  ///
  /// If a task prefers this executor, a request requires fewer thread switches, and the answer
  /// arrives sooner. Such a task must not block: while it blocks, the client neither sends nor
  /// receives.
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

  // MARK: The topology directory

  /// Returns the current topology directory, after each running node has reported its status again.
  public func directory() async throws -> TopologyDirectory {
    try await directory(fresh: true)
  }

  package func directory(fresh: Bool) async throws -> TopologyDirectory {
    try await command(.directory(fresh: fresh)).extract {
      if case .directory(let directory) = $0 { directory } else { nil }
    }
  }

  /// Returns a topology directory that is not older than the call. Calls that wait at the same time
  /// share the next topology directory.
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
      let shards = directory.shards(of: name).map(\.name)
      if let first = shards.first {
        throw TopologyClientError.hasShards(name, first: first, count: shards.count)
      }
      throw TopologyClientError.unknownNode(name, known: directory.names)
    }
    return node
  }

  /// Returns the shard that owns the key of an event.
  /// - Throws: ``TopologyClientError``: `invalidEvent` if the event has no valid key.
  private func shard(
    of name: String, taking event: [UInt8], in directory: TopologyDirectory
  ) throws -> NodeInformation {
    // The node may no longer have shards.
    if let node = directory[node: name] { return node }
    var keys = InstanceKeyReader(field: directory.shards(of: name).first?.instanceField ?? "")
    do throws(InstanceKeyError) {
      if let shard = directory.host(of: try keys.key(ofEvent: event), in: name) { return shard }
    } catch {
      throw TopologyClientError.invalidEvent(name, "\(error)")
    }
    throw TopologyClientError.unknownNode(name, known: directory.names)
  }

  /// Sends a command that the orchestrator answers immediately.
  package func command(_ command: ControlCommand) async throws -> ControlAnswer {
    try await self.command(
      command, timeout: answerTimeout, timeoutError: .notAnswering(topology, after: answerTimeout))
  }

  /// Sends a command that may take a long time.
  /// - Parameter timeoutError: The error if the command is not finished in time.
  package func command(
    _ command: ControlCommand, timeout: Duration, timeoutError: TopologyClientError
  ) async throws -> ControlAnswer {
    try await call { sockets, resume in
      sockets.control.command(command, timeout: timeout, timeoutError: timeoutError, resume)
    }
  }

  // MARK: Events

  /// Sends an event to a node and waits for its outcome. If the node is being restarted, waits
  /// until it runs.
  ///
  /// If the event is for an instance, such as `orders[4711]`, the client writes the instance's key
  /// into the event's key field, unless the event already has this field.
  ///
  /// At most 1,024 requests to a node are in flight. Further requests wait until earlier requests
  /// are answered. Waiting requests do not time out while the node answers requests.
  /// - Parameters:
  ///   - timeout: The maximum wait for the answer, starting when the request is sent. The default,
  ///     `nil`, means 5 s.
  ///   - includingState: Whether the answer contains the state after the step. If `false`, the
  ///     state in the outcome is `null`, and a node with a large state answers several times
  ///     faster.
  /// - Throws: ``TopologyClientError``; `unknownOutcome` if the node did not answer.
  /// - Note: If the node keeps a journal and its process ends before it answers, the client sends
  ///   the event to the next process with the same number. The node applies the event only once.
  @discardableResult
  public func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration? = nil,
    includingState: Bool = true
  ) async throws -> RequestOutcome {
    try await send(
      node, bytes: EventCodec().encode(event), timeout: timeout, includingState: includingState)
  }

  /// Sends an event that is given as JSON: `"open"` for an event without values, or `{"go":
  /// {"floor": 3}}`.
  @discardableResult
  public func send(
    _ node: String, json event: JSONValue, timeout: Duration? = nil, includingState: Bool = true
  ) async throws -> RequestOutcome {
    try await send(node, bytes: event.bytes, timeout: timeout, includingState: includingState)
  }

  private func send(
    _ name: String, bytes: [UInt8], timeout: Duration?, includingState: Bool
  ) async throws -> RequestOutcome {
    guard bytes.count <= WireLimits.maximumEventByteCount else {
      throw TopologyClientError.invalidEvent(
        name,
        "the event has \(bytes.count) bytes; the limit is \(WireLimits.maximumEventByteCount); send a "
          + "reference to large data, such as a file path")
    }
    let timeout = timeout ?? answerTimeout
    if let instance = InstanceName(name) {
      return try await send(
        bytes, to: instance, timeout: timeout, includingState: includingState)
    }
    let content = ClientRequest.Content.event(bytes, wantsState: includingState)
    do {
      return try await request(name, content, timeout: timeout)
    } catch TopologyClientError.hasShards {
      return try await request(content, timeout: timeout) {
        try shard(of: name, taking: bytes, in: $0).name
      }
    } catch is CompositeRecipientError {
      let event = TransactionBody(composite: name, event: bytes).eventName ?? ""
      return try await request(
        acceptingNode(of: event, in: name), content, timeout: timeout)
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
    if node.kind == .composite {
      return try await send(
        node.name, bytes: event.bytes, timeout: timeout, includingState: includingState)
    }
    let content = ClientRequest.Content.event(event.bytes, wantsState: includingState)
    return try await request(content, timeout: timeout) {
      try self.instance(instance.description, in: $0)?.node.name ?? instance.node
    }
  }

  /// Sends a request to the process that `process` returns. If the number of shards changes before
  /// this process receives the request, calls `process` again, and sends the request to the process
  /// that `process` returns then.
  private func request(
    _ content: ClientRequest.Content, timeout: Duration,
    toProcess process: (TopologyDirectory) throws -> String
  ) async throws -> RequestOutcome {
    let deadline = ContinuousClock.now + timeout
    while true {
      let name = try process(try await sharedDirectory())
      let remaining = deadline - .now
      do {
        return try await request(name, content, timeout: max(.zero, remaining))
      } catch let error as TopologyClientError {
        switch error {
        case .unknownNode, .hasShards: if remaining <= .zero { throw error }
        default: throw error
        }
      }
    }
  }

  // MARK: States

  /// Returns the states of some nodes, or of all nodes: first the current state of each node, then
  /// each change.
  ///
  /// A name can also be the name of an instance, such as `orders[4711]`. If the instance does not
  /// exist yet, it has no current state.
  ///
  /// If the consumer is slower than the nodes, the oldest buffered changes are dropped. The next
  /// change of the same node contains the number of changes that were missed.
  /// - Parameters:
  ///   - states: Whether to return every state, which is the default, or only the latest.
  ///   - reportingInDoubt: Whether ``StateChange/doubts`` of a composite contains its components'
  ///     transactions in doubt. If so, the stream repeats a state, with the same version, whenever
  ///     a transaction in doubt of a component begins or ends.
  public func states(
    of nodes: [String]? = nil, _ states: WatchedStates = .every, reportingInDoubt: Bool = false
  ) async throws -> StateStream {
    let directory = try await directory(fresh: false)
    let instances = try (nodes ?? []).compactMap { try instance($0, in: directory) }
    let instanceNames = Set(instances.map(\.name.description))
    let chosen =
      try nodes?.filter { !instanceNames.contains($0) }.flatMap { name in
        let shards = directory.shards(of: name)
        return shards.isEmpty ? [try node(name, in: directory)] : shards
      }
      ?? directory.nodes.filter { $0.kind != .monitor }
    let buffer = StateStreamBuffer()
    let names = Set(chosen.map(\.name))
    let hasComposites = reportingInDoubt && chosen.contains { $0.kind == .composite }
    let inDoubtRecords = InDoubtRecords(
      watchedNames: names, coordinatorPlans: hasComposites ? try await conflictClasses() : [],
      receivesEveryState: states == .every)
    // Composites that share participants have one coordinator, and therefore one feed.
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

  /// Subscribes to feeds.
  /// - Parameters:
  ///   - end: Called when no more messages arrive, because the topology has ended or the client is
  ///     closed.
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
      if !state.isClosed { state.streamEndHandlers[id] = end }
      return state.isClosed
    }
    if isClosed { end() }
    let shared = shared
    let handle = thread.handle
    return {
      shared.state.withLock { _ = $0.streamEndHandlers.removeValue(forKey: id) }
      handle.post { shared.runOnLoop { $0.unwatch(id) } }
    }
  }

  /// Runs a closure on the client's own thread, unless the client is closed.
  func post(_ body: @escaping @Sendable (ClientSockets) -> Void) {
    let shared = shared
    thread.handle.post { shared.runOnLoop(body) }
  }

  /// Waits until a node is in a state that satisfies the predicate, and returns the change to that
  /// state.
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
        // The continuation must be resumed exactly once, even if the call is made after the client
        // is closed.
        let isOpen = shared.runOnLoop { sockets in body(sockets) { continuation.resume(with: $0) } }
        if !isOpen { continuation.resume(throwing: TopologyClientError.closed) }
      }
    }
  }
}

extension TopologyClient.Shared {
  /// Runs a closure with the client's sockets. Call this only on the loop's thread. If the client
  /// is closed, does not run the closure and returns `false`.
  @discardableResult
  func runOnLoop(_ body: (ClientSockets) -> Void) -> Bool {
    guard let owned = state.withLock({ $0.sockets }) else { return false }
    body(owned.value)
    return true
  }

  func endStreams() {
    let streams = state.withLock { state in
      defer { state.streamEndHandlers = [:] }
      return state.streamEndHandlers.values
    }
    for end in streams { end() }
  }
}

extension TopologyClient {
  /// Attaches to a running topology by its name, or to the only running topology.
  /// - Throws: ``TopologyClientError``: `notRunning`; `ambiguous` if several topologies are running
  ///   and no name is given.
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
  /// Returns before the orchestrator has answered. If the orchestrator does not answer within 5 s,
  /// or rejects the key, calls throw ``TopologyClientError/unreachable(_:_:)``. If the connection
  /// breaks later, pending calls wait up to 10 s until the connection is restored.
  /// - Parameters:
  ///   - endpoint: The orchestrator's endpoint, `tcp://HOST:PORT`, as reached from this host. The
  ///     host can be a name, which is resolved for each connection. `nil` means the endpoint in the
  ///     key file.
  ///   - path: The path of a copy of the file `client.key` in the runtime directory of the run. The
  ///     copy must have mode 600.
  /// - Throws: ``TopologyClientError/unusableKey(_:)``
  public static func attach(
    to endpoint: String? = nil, key path: String
  ) throws -> TopologyClient {
    try attach(to: .remote(RemoteTopology(key: path, at: endpoint)))
  }

  /// Attaches to a running topology on this host or on another host.
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
  /// The command-line options that select the topology: `-p NAME`, or `--key FILE` from another
  /// host.
  package var targetOptions: String {
    guard let remote else { return "-p \(topology)" }
    return "--key \(remote.path)" + (remote.isRedirected ? " --connect \(remote.endpoint)" : "")
  }

  /// The error that the connection to an orchestrator on another host is lost, although the
  /// topology may continue to run. `nil` if the connection is not lost, if the orchestrator has
  /// reported the end of the topology, or if the orchestrator is on this host.
  package var connectionLossError: TopologyClientError? {
    guard let remote, shared.state.withLock({ $0.isLost }) else { return nil }
    return .unreachable(remote.endpoint, .broken)
  }

  /// The error that the orchestrator can no longer be reached; `nil` if the topology has ended.
  /// Blocks the thread for up to a second while an ending orchestrator still holds its lock.
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
  /// Returns the directories of the running topology with this name or, if `name` is `nil`, of the
  /// only running topology.
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
      name, nodes: nodes.map(\.node), file: topologyFile,
      deployment: deploymentFile ?? (isDeployed ? "DEPLOYMENT" : nil))
  }
}
