import PipeMachines
import PipeSupport
import PipeTransport
import PipeWire

/// Attaches to a running topology: reads its states, sends it events, steers its nodes.
///
/// Any number of clients may attach and leave at any time; the nodes do not notice.
public final class TopologyClient: Sendable {
  /// The topology's name.
  public let topology: String
  /// Where it runs, if that is on another host.
  package let remote: RemoteTopology?
  private let thread: LoopThread
  let shared: Shared
  /// The longest wait for an answer, where a call names none.
  let answerTimeout: Duration

  /// What the loop's thread and callers share.
  final class Shared: Sendable {
    struct State {
      // Used on the loop's thread only; the mutex hands it over.
      var sockets: LoopOwned<ClientSockets>?
      /// What is read of feeds: how each is told that no more comes.
      var streams: [UInt64: @Sendable () -> Void] = [:]
      /// Nodes that have answered a request; their endpoints stay for as long as the topology runs.
      var known: [String: NodeInformation] = [:]
      /// Those who wait for the next directory, and whether one is asked for.
      var awaitingDirectory: [CheckedContinuation<TopologyDirectory, any Error>] = []
      var isAskingForDirectory = false
      var isClosed = false
      /// Whether the orchestrator is not to be reached any more, and has not told that the topology has ended.
      var isLost = false
    }
    let state = Locked(State())
  }

  /// Attaches to the orchestrator at a control endpoint.
  /// - Parameter keys: By which it reaches nodes that are bound for other hosts; `nil` for none.
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

  /// Runs tasks on the client's own thread, between what it does itself.
  ///
  /// A request of a task that prefers it changes threads less often, and is answered sooner. What such
  /// a task does must not block: the client then neither sends nor receives.
  public var executor: any TaskExecutor { LoopExecutor(thread.handle) }

  /// Detaches. Calls that wait end with ``TopologyClientError/closed``, streams end.
  public func close() {
    let wasClosed = shared.state.withLock { state in
      defer { state.isClosed = true }
      return state.isClosed
    }
    guard !wasClosed else { return }
    shared.endStreams()
    let shared = shared
    thread.handle.post {
      shared.onLoop { $0.close() }
      shared.state.withLock { $0.sockets = nil }
    }
    thread.join()
  }

  // MARK: The directory

  /// The topology as it is now, with what each running node tells of itself.
  public func directory() async throws -> TopologyDirectory {
    try await directory(fresh: true)
  }

  package func directory(fresh: Bool) async throws -> TopologyDirectory {
    try await command(.directory(fresh: fresh)).take {
      if case .directory(let directory) = $0 { directory } else { nil }
    }
  }

  /// The directory as it is told from now on: all who ask while another one is awaited share the next.
  func sharedDirectory() async throws -> TopologyDirectory {
    try await withCheckedThrowingContinuation { continuation in
      let isFirst = shared.state.withLock { state in
        state.awaitingDirectory.append(continuation)
        defer { state.isAskingForDirectory = true }
        return !state.isAskingForDirectory
      }
      if isFirst { Task { await self.askForDirectory() } }
    }
  }

  private func askForDirectory() async {
    while true {
      let waiting = shared.state.withLock { state in
        defer { state.awaitingDirectory = [] }
        if state.awaitingDirectory.isEmpty { state.isAskingForDirectory = false }
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

  /// Asks the orchestrator something, which it answers at once.
  package func command(_ command: ControlCommand) async throws -> ControlAnswer {
    try await self.command(
      command, timeout: answerTimeout, late: .notAnswering(topology, after: answerTimeout))
  }

  /// Asks the orchestrator for something that takes its time.
  /// - Parameter late: What is thrown where it is not done in time.
  package func command(
    _ command: ControlCommand, timeout: Duration, late: TopologyClientError
  ) async throws -> ControlAnswer {
    try await call { sockets, resume in
      sockets.control.command(command, timeout: timeout, late: late, resume)
    }
  }

  // MARK: Events

  /// Sends an event to a node and waits for what becomes of it; a node that is just being started
  /// again is waited for.
  ///
  /// At most 1,024 requests to a node are in flight; others wait until some of these are answered, for as long as
  /// the node answers any.
  /// - Parameter timeout: The longest wait for the answer, once the request is in flight; `nil`, the default, is 5 s.
  /// - Throws: ``TopologyClientError``; `unknownOutcome` where the node did not answer.
  /// - Note: Where the node keeps a journal and dies before it answers, the event is sent to the next
  ///   process under the same number, and is applied once.
  @discardableResult
  public func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration? = nil
  ) async throws -> RequestOutcome {
    try await send(node, bytes: EventCodec().encode(event), timeout: timeout)
  }

  /// Sends an event given as JSON: a bare label as a string, or `{"label": {"field": value}}`.
  @discardableResult
  public func send(
    _ node: String, json event: JSONValue, timeout: Duration? = nil
  ) async throws -> RequestOutcome {
    try await send(node, bytes: event.bytes, timeout: timeout)
  }

  private func send(
    _ name: String, bytes: [UInt8], timeout: Duration?
  ) async throws -> RequestOutcome {
    guard bytes.count <= WireLimits.eventByteCount else {
      throw TopologyClientError.invalidEvent(
        name,
        "the event has \(bytes.count) bytes; the limit is \(WireLimits.eventByteCount). "
          + "Send a reference to large data, such as a file's path.")
    }
    let timeout = timeout ?? answerTimeout
    do {
      return try await request(name, .event(bytes), timeout: timeout)
    } catch is CompositeAsked {
      let event = TransactionBody(composite: name, event: bytes).eventName ?? ""
      return try await request(taker(of: event, in: name), .event(bytes), timeout: timeout)
    }
  }

  // MARK: States

  /// The states of some nodes, or of all: of each its current state at once, then what changes.
  ///
  /// A consumer that is slower than the nodes makes the oldest buffered changes of a node give way;
  /// the next change that it gets says how many it missed.
  /// - Parameters:
  ///   - states: Every state, which is the default, or the latest only.
  ///   - tellingInDoubt: Whether ``StateChange/doubts`` are told, of composites those of their
  ///     nodes. A state then comes once more, under the same version, when a doubt begins or ends.
  public func states(
    of nodes: [String]? = nil, _ states: WatchedStates = .every, tellingInDoubt: Bool = false
  ) async throws -> StateStream {
    let directory = try await directory(fresh: false)
    let chosen =
      try nodes?.map { try node($0, in: directory) }
      ?? directory.nodes.filter { $0.kind != .monitor }
    let buffer = StateStreamBuffer()
    let names = Set(chosen.map(\.name))
    let hasComposites = tellingInDoubt && chosen.contains { $0.kind == .composite }
    let marks = InDoubtMarks(
      shown: names, classes: hasComposites ? try await conflictClasses() : [],
      seesEvery: states == .every)
    // Composites share a feed where they share participants.
    let feeds = Set(chosen.map(\.feedName)).union(
      marks.nodes.compactMap { directory[node: $0]?.feedName })
    let locked = Locked(marks)
    let stop = try await follow(ending: { buffer.end() }) { sockets in
      try sockets.watch(Array(feeds), states, tellsInDoubt: tellingInDoubt) { change in
        for shown in locked.withLock({ $0.take(change) }) { buffer.append(shown) }
      }
    }
    return StateStream(buffer: buffer, onEnd: stop)
  }

  /// Begins to read feeds.
  /// - Parameters:
  ///   - end: Called when no more comes: the topology has gone down, or the client is closed.
  ///   - begin: Begins it, and returns its number.
  /// - Returns: What ends it.
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
      handle.post { shared.onLoop { $0.unwatch(id) } }
    }
  }

  /// Does something on the client's own thread; nothing where it is closed.
  func post(_ body: @escaping @Sendable (ClientSockets) -> Void) {
    let shared = shared
    thread.handle.post { shared.onLoop(body) }
  }

  /// Waits until a node is in a state that the predicate accepts, and returns that change.
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
        // Called once for each: a call that comes after the end is answered all the same.
        let isOpen = shared.onLoop { sockets in body(sockets) { continuation.resume(with: $0) } }
        if !isOpen { continuation.resume(throwing: TopologyClientError.closed) }
      }
    }
  }
}

extension TopologyClient.Shared {
  /// Runs on the loop's thread only. Returns `false` where the client is closed.
  @discardableResult
  func onLoop(_ body: (ClientSockets) -> Void) -> Bool {
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
  /// Attaches to a running topology by its name; without one to the only one that runs.
  /// - Throws: ``TopologyClientError``: `notRunning`, or `ambiguous` where several run.
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
  /// It returns before the orchestrator has answered. Where that does not come within 5 s, or is not let in, calls
  /// throw ``TopologyClientError/unreachable(_:_:)``. A connection that breaks later is waited for, for 10 s.
  /// - Parameters:
  ///   - endpoint: Where its orchestrator is reached from here, `tcp://HOST:PORT`; the host may be a name, which is
  ///     looked up at each connect. `nil` for where the key file says that it is.
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
  /// How a command line names the topology: `-p NAME`, or `--key FILE` from another host.
  package var choice: String {
    guard let remote else { return "-p \(topology)" }
    return "--key \(remote.path)" + (remote.isRedirected ? " --connect \(remote.endpoint)" : "")
  }

  /// That the connection to an orchestrator on another host was lost, where that has not told that the topology has
  /// gone down: it may go on.
  package var lossOfConnection: TopologyClientError? {
    guard let remote, shared.state.withLock({ $0.isLost }) else { return nil }
    return .unreachable(remote.endpoint, .broken)
  }

  /// Why the orchestrator is not to be reached any more, with what to do; `nil` where the topology
  /// has gone down. Blocks the thread for a second at most, while an orchestrator that ends holds its
  /// lock.
  package var problemAtEnd: TopologyClientError? {
    if remote != nil { return lossOfConnection }
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
  /// The directories of the running topology with this name, or of the only one that runs.
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
