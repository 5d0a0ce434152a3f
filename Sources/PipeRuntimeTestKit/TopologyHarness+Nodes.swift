import PipeRuntime

// Events.
extension TopologyHarness {
  /// Sends an event to a node and waits for what becomes of it.
  /// - Parameter timeout: The longest wait; `nil`, the default, waits until nothing has moved for 10 s.
  /// - Throws: ``PipeRuntime/TopologyClientError``, where it does not reach the machine.
  @discardableResult
  public func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> RequestOutcome {
    try await at(fileID, filePath, line, column) {
      try await counting(node) { [client] in
        try await client.send(node, event, timeout: timeout)
      }
    }
  }

  /// Sends an event given as JSON: `"closed"`, or `["closing": ["persons": 3]]`.
  /// - Throws: ``PipeRuntime/TopologyClientError``, where it does not reach the machine.
  @discardableResult
  public func send(
    _ node: String, _ event: JSONValue, timeout: Duration? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> RequestOutcome {
    try await at(fileID, filePath, line, column) {
      try await counting(node) { [client] in
        try await client.send(node, json: event, timeout: timeout)
      }
    }
  }

  /// Lets the node's states count from the one that the event led to.
  private func counting(
    _ node: String, _ send: @escaping @Sendable () async throws -> RequestOutcome
  ) async throws -> RequestOutcome {
    let incarnation = history.incarnation(of: node)
    let outcome = try await answer("node '\(node)' did not answer an event", send)
    if case .moved(let version, _) = outcome {
      history.advance(
        node, to: StateHistory.Mark(incarnation: incarnation, version: version))
    }
    return outcome
  }

  /// Waits for an answer for as long as anything moves: the client's own limit is far away.
  private func answer<Answer: Sendable>(
    _ problem: String, within limit: Duration = .seconds(10),
    _ request: @escaping @Sendable () async throws -> Answer
  ) async throws -> Answer {
    switch try await withStallLimit(limit, of: directory, request) {
    case .found(let answer): return answer
    case .stalled(let stall): throw await failure(problem, after: stall)
    }
  }
}

// What is known.
extension TopologyHarness {
  /// The topology, with what each node tells of itself now.
  public func directory(
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> TopologyDirectory {
    try await at(fileID, filePath, line, column) {
      try await told { _ in true }
    }
  }

  /// A node, with what it tells of itself now.
  public func status(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws -> NodeInformation {
    try await at(fileID, filePath, line, column) {
      try client.node(node, in: await told { $0.name == node })
    }
  }

  /// Asks until these nodes have told of themselves since: the orchestrator waits only for a moment, and
  /// then gives what they told before. Where nothing moves any more, that is all there is.
  private func told(by isMeant: (NodeInformation) -> Bool) async throws -> TopologyDirectory {
    let start = WallClock.nanoseconds
    var last = try await client.directory(fresh: true)
    _ = try await ask(every: .milliseconds(10), within: .seconds(10), of: directory) {
      () -> Bool? in
      if last.nodes.allSatisfy({ !isMeant($0) || Self.hasTold($0, since: start) }) { return true }
      last = try await client.directory(fresh: true)
      return nil
    }
    return last
  }

  /// Whether a node has told of itself since, or does not tell: one that a signal has stopped.
  private static func hasTold(_ node: NodeInformation, since start: Int64) -> Bool {
    guard node.isRunning, node.kind != .monitor, let pid = node.pid else { return true }
    if let time = node.status?.time, time >= start { return true }
    return FileSystem.text(of: "/proc/\(pid)/stat")?.contains(") T ") == true
  }

  /// The states of some nodes, or of all: of each its current state at once, then every change.
  public func states(
    of nodes: [String]? = nil, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws -> StateStream {
    try await at(fileID, filePath, line, column) {
      try await client.states(of: nodes)
    }
  }

  private func information(of node: String) async throws -> NodeInformation {
    try client.node(node, in: await client.directory(fresh: false))
  }
}

// Life and death.
extension TopologyHarness {
  /// Kills a node's process. Its restart policy applies; only states after a restart count.
  public func kill(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      let incarnation = try await information(of: node).incarnation
      try await signal(node, .kill)
      history.advance(node, to: StateHistory.Mark(incarnation: incarnation + 1, version: 0))
    }
  }

  /// Sends SIGTERM to a node's process, on which it stops in order.
  public func terminate(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      try await signal(node, .terminate)
    }
  }

  /// Lets a node's process stand still, as a deadlock would: SIGSTOP.
  public func pause(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      try await signal(node, .stop)
      state.withLock { _ = $0.paused.insert(node) }
    }
  }

  /// Lets a node's process that was paused go on: SIGCONT.
  public func resume(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      state.withLock { _ = $0.paused.remove(node) }
      try await signal(node, .resume)
    }
  }

  /// Sends any signal to a node's process.
  public func signal(
    _ node: String, number: Int32, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      try await client.kill(node, signal: number)
    }
  }

  private func signal(_ node: String, _ signal: Signal) async throws {
    try await client.kill(node, signal: signal.number)
  }

  /// Stops nodes in order, and waits until they have ended.
  public func stop(
    _ nodes: String..., fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      try await answer("nodes did not end", within: options.stopTimeout) { [client] in
        try await client.stop(nodes, within: Self.clientTimeout)
      }
    }
  }

  /// Starts nodes that were stopped or have failed, and waits until they run.
  public func start(
    _ nodes: String..., fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      try await answer("nodes do not run", within: options.startTimeout) { [client] in
        try await client.start(nodes, within: Self.clientTimeout)
      }
    }
  }

  /// Stops nodes in order and starts them again; only their states after that count.
  public func restart(
    _ nodes: String..., fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      let directory = try await client.directory(fresh: false)
      try await answer("nodes do not run again", within: options.startTimeout) { [client] in
        try await client.restart(nodes, within: Self.clientTimeout)
      }
      for node in directory.nodes where nodes.contains(node.name) {
        history.advance(
          node.name, to: StateHistory.Mark(incarnation: node.incarnation + 1, version: 0))
      }
    }
  }
}
