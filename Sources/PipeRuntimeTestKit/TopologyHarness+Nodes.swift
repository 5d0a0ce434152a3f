import PipeRuntime

// Events.
extension TopologyHarness {
  /// Sends an event to a node and waits for the outcome.
  /// - Parameter timeout: The longest wait; `nil`, the default, waits until there was no progress
  ///   for 10 s.
  /// - Throws: ``PipeRuntime/TopologyClientError``, if the event does not reach the machine.
  @discardableResult
  public func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> RequestOutcome {
    try await at(fileID, filePath, line, column) {
      try await advancingHistory(node) { [client] in
        try await client.send(node, event, timeout: timeout)
      }
    }
  }

  /// Sends an event given as JSON: `"closed"`, or `["closing": ["persons": 3]]`.
  /// - Throws: ``PipeRuntime/TopologyClientError``, if the event does not reach the machine.
  @discardableResult
  public func send(
    _ node: String, _ event: JSONValue, timeout: Duration? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> RequestOutcome {
    try await at(fileID, filePath, line, column) {
      try await advancingHistory(node) { [client] in
        try await client.send(node, json: event, timeout: timeout)
      }
    }
  }

  /// Sends an event. The next expectation starts at the state that the event caused.
  private func advancingHistory(
    _ node: String, _ send: @escaping @Sendable () async throws -> RequestOutcome
  ) async throws -> RequestOutcome {
    let incarnation = history.incarnation(of: node)
    let outcome = try await answer("node '\(node)' did not answer an event", send)
    if case .accepted(let version, _) = outcome {
      history.advance(
        node, to: StateHistory.StepPosition(incarnation: incarnation, version: version))
    }
    return outcome
  }

  /// Waits for an answer for as long as there is progress. The client's own timeout is much longer.
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

// Status.
extension TopologyHarness {
  /// Returns the directory of the topology, with the current status of each node.
  public func directory(
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> TopologyDirectory {
    try await at(fileID, filePath, line, column) {
      try await upToDateDirectory { _ in true }
    }
  }

  /// Returns a node with its current status.
  public func status(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws -> NodeInformation {
    try await at(fileID, filePath, line, column) {
      try client.node(node, in: await upToDateDirectory { $0.name == node })
    }
  }

  /// Queries the orchestrator until the relevant nodes have reported their status after this call.
  /// The orchestrator waits for new reports only briefly, and then returns older reports. Returns
  /// the last directory if there is no progress.
  private func upToDateDirectory(by isRelevant: (NodeInformation) -> Bool) async throws
    -> TopologyDirectory
  {
    let start = WallClock.nanoseconds
    var last = try await client.directory(fresh: true)
    _ = try await ask(every: .milliseconds(10), within: .seconds(10), of: directory) {
      () -> Bool? in
      if last.nodes.allSatisfy({ !isRelevant($0) || Self.hasReported($0, since: start) }) {
        return true
      }
      last = try await client.directory(fresh: true)
      return nil
    }
    return last
  }

  /// Whether a node has reported its status since `start`, or cannot report because a signal has
  /// stopped its process.
  private static func hasReported(_ node: NodeInformation, since start: Int64) -> Bool {
    guard node.isRunning, node.kind != .monitor, let pid = node.pid else { return true }
    if let time = node.status?.time, time >= start { return true }
    return FileSystem.text(of: "/proc/\(pid)/stat")?.contains(") T ") == true
  }

  /// Returns a stream of the states of some nodes, or of all: first the current state of each, then
  /// every change.
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

// Starting, stopping and signals.
extension TopologyHarness {
  /// Kills a node's process. The node's restart policy applies. Later expectations consider only
  /// states after the restart.
  public func kill(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      let incarnation = try await information(of: node).incarnation
      try await signal(node, .kill)
      history.advance(node, to: StateHistory.StepPosition(incarnation: incarnation + 1, version: 0))
    }
  }

  /// Sends SIGTERM to a node's process, which then stops gracefully.
  public func terminate(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await at(fileID, filePath, line, column) {
      try await signal(node, .terminate)
    }
  }

  /// Suspends a node's process with SIGSTOP, which has the same effect as a deadlock.
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

  /// Resumes a node's paused process with SIGCONT.
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

  /// Stops nodes gracefully, and waits until they have ended.
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

  /// Stops nodes gracefully and starts them again. Later expectations consider only the nodes'
  /// states after the restart.
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
          node.name, to: StateHistory.StepPosition(incarnation: node.incarnation + 1, version: 0))
      }
    }
  }
}
