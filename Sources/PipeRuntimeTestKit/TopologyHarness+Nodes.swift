import PipeRuntime

// Events.
extension TopologyHarness {
  /// Sends an event to a node and waits for the outcome.
  /// - Parameter timeout: The maximum time to wait. By default, the call waits until there is no
  ///   progress for 10 s.
  /// - Throws: ``PipeRuntime/TopologyClientError`` if the event does not reach the machine.
  @discardableResult
  public func send(
    _ node: String, _ event: some MachineEvent, timeout: Duration? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> RequestOutcome {
    try await storingCallSite(fileID, filePath, line, column) {
      try await advancingHistory(node) { [client] in
        try await client.send(node, event, timeout: timeout)
      }
    }
  }

  /// Sends an event as JSON, such as `"closed"` or `["closing": ["persons": 3]]`, and waits for the
  /// outcome.
  /// - Throws: ``PipeRuntime/TopologyClientError`` if the event does not reach the machine.
  @discardableResult
  public func send(
    _ node: String, _ event: JSONValue, timeout: Duration? = nil, fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> RequestOutcome {
    try await storingCallSite(fileID, filePath, line, column) {
      try await advancingHistory(node) { [client] in
        try await client.send(node, json: event, timeout: timeout)
      }
    }
  }

  /// Sends an event. Later expectations ignore the node's states before the step of this event.
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

  /// Makes a request and waits for the answer as long as there is progress. The client's own
  /// timeout is much longer.
  /// - Parameters:
  ///   - problem: The message if there is no answer.
  ///   - limit: The maximum time without progress.
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
  /// Returns the status of the topology and of all its nodes.
  public func directory(
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> TopologyDirectory {
    try await storingCallSite(fileID, filePath, line, column) {
      try await upToDateDirectory { _ in true }
    }
  }

  /// Returns the orchestrator's current information about a node.
  public func status(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws -> NodeInformation {
    try await storingCallSite(fileID, filePath, line, column) {
      try client.node(node, in: await upToDateDirectory { $0.name == node })
    }
  }

  /// Requests the directory repeatedly, until each relevant node has reported its status after the
  /// start of this call. A single request is not enough, because the orchestrator waits only
  /// briefly for new statuses before it returns older ones. If there is no progress for 10 s,
  /// returns the last answer.
  private func upToDateDirectory(by isRelevant: (NodeInformation) -> Bool) async throws
    -> TopologyDirectory
  {
    let start = WallClock.nanoseconds
    var last = try await client.directory(fresh: true)
    _ = try await pollUntilStalled(every: .milliseconds(10), within: .seconds(10), of: directory) {
      () -> Bool? in
      if last.nodes.allSatisfy({ !isRelevant($0) || Self.hasReported($0, since: start) }) {
        return true
      }
      last = try await client.directory(fresh: true)
      return nil
    }
    return last
  }

  /// Returns whether a node has reported its status since `start`. Also returns `true` if the node
  /// cannot report, because its process is paused.
  private static func hasReported(_ node: NodeInformation, since start: Int64) -> Bool {
    guard node.isRunning, node.kind != .monitor, let pid = node.pid else { return true }
    if let time = node.status?.time, time >= start { return true }
    return FileSystem.text(of: "/proc/\(pid)/stat")?.contains(") T ") == true
  }

  /// Returns a stream of the states of the given nodes; `nil` means all nodes. The stream begins
  /// with the current state of each node.
  public func states(
    of nodes: [String]? = nil, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws -> StateStream {
    try await storingCallSite(fileID, filePath, line, column) {
      try await client.states(of: nodes)
    }
  }

  private func information(of node: String) async throws -> NodeInformation {
    try client.node(node, in: await client.directory(fresh: false))
  }
}

// Starting, stopping and signals.
extension TopologyHarness {
  /// Kills a node's process with SIGKILL. If the node is just being restarted, first waits for its
  /// next process.
  ///
  /// The orchestrator then applies the node's restart policy. Later expectations consider only
  /// states after the restart.
  public func kill(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await storingCallSite(fileID, filePath, line, column) {
      let wait = try await pollUntilStalled(
        every: .milliseconds(5), within: .seconds(10), of: directory
      ) {
        try await killProcess(of: node)
      }
      guard case .found(let incarnation) = wait else {
        throw TopologyClientError.failed("node '\(node)' has no process")
      }
      history.advance(node, to: StateHistory.StepPosition(incarnation: incarnation + 1, version: 0))
    }
  }

  /// Kills a node's process.
  /// - Returns: The incarnation of the process; `nil` if the node has no process now, and is being
  ///   restarted.
  private func killProcess(of name: String) async throws -> UInt64? {
    let directory = try await client.directory(fresh: false)
    let node = try client.node(name, in: directory)
    do {
      try await signal(name, .kill)
      return node.incarnation
    } catch TopologyClientError.failed
      where node.kind != .monitor && (node.isRunning || node.isAboutToRun(in: directory))
    {
      return nil
    }
  }

  /// Sends SIGTERM to a node's process, which then stops gracefully.
  public func terminate(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await storingCallSite(fileID, filePath, line, column) {
      try await signal(node, .terminate)
    }
  }

  /// Pauses a node's process with SIGSTOP. The node then appears to hang.
  public func pause(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await storingCallSite(fileID, filePath, line, column) {
      try await signal(node, .stop)
      state.withLock { _ = $0.pausedNodes.insert(node) }
    }
  }

  /// Resumes a node's paused process with SIGCONT.
  public func resume(
    _ node: String, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await storingCallSite(fileID, filePath, line, column) {
      state.withLock { _ = $0.pausedNodes.remove(node) }
      try await signal(node, .resume)
    }
  }

  /// Sends a signal to a node's process.
  public func signal(
    _ node: String, number: Int32, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await storingCallSite(fileID, filePath, line, column) {
      try await client.kill(node, signal: number)
    }
  }

  private func signal(_ node: String, _ signal: Signal) async throws {
    try await client.kill(node, signal: signal.number)
  }

  /// Stops nodes gracefully, and waits until their processes have ended.
  public func stop(
    _ nodes: String..., fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await storingCallSite(fileID, filePath, line, column) {
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
    try await storingCallSite(fileID, filePath, line, column) {
      try await answer("nodes do not run", within: options.startTimeout) { [client] in
        try await client.start(nodes, within: Self.clientTimeout)
      }
    }
  }

  /// Stops nodes gracefully, and starts them again. Later expectations consider only states after
  /// the restart.
  public func restart(
    _ nodes: String..., fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line,
    column: UInt = #column
  ) async throws {
    try await storingCallSite(fileID, filePath, line, column) {
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
