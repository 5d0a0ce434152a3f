import PipeRuntime

// Expectations of a node's states. An expectation considers only states after two points: the last
// state that an earlier expectation has found, and the last event that the test has sent to the
// node.
//
// The parameter `within:` limits the time without progress. Time in which this process or a process
// of the topology computes, or waits for a processor or a disk, does not count. So on a busy host,
// a wait takes longer, but does not fail.
extension TopologyHarness {
  /// Waits until the node is in a state that `pattern` accepts.
  /// - Returns: The accepted state.
  @discardableResult
  public func expect(
    _ node: String, is pattern: StatePattern, within timeout: Duration = .seconds(10),
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> StateChange {
    try await storingCallSite(fileID, filePath, line, column) {
      try await expect(node, StateSearch([pattern], .inOrder), timeout)[0]
    }
  }

  /// Waits until the node, or an instance such as `orders[4711]`, is in a state that equals
  /// `state`.
  @discardableResult
  public func expect<State: MachineState & Equatable>(
    _ node: String, _ state: State, within timeout: Duration = .seconds(10),
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> StateChange {
    try await storingCallSite(fileID, filePath, line, column) {
      try await expect(node, is: .state(state), within: timeout)
    }
  }

  /// Waits until the node is in a state that satisfies `predicate`.
  /// - Parameter description: A description of the expectation, for messages.
  /// - Returns: The state that satisfies the predicate.
  @discardableResult
  public func expect<State: MachineState>(
    _ node: String, _ description: String = "a state that the test accepts",
    within timeout: Duration = .seconds(10),
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column, where predicate: @escaping @Sendable (State) -> Bool
  ) async throws -> State {
    try await storingCallSite(fileID, filePath, line, column) {
      let change = try await expect(
        node, is: .matching(description, predicate), within: timeout)
      return try EventCodec<State>().decode(change.state.bytes)
    }
  }

  /// Waits until the node has been in states that match `patterns`, in this order. The node may
  /// have been in other states in between.
  ///
  /// ```swift
  /// try await elevator.expect("door", inOrder: [["closing": ["persons": 3]], "closed"])
  /// ```
  @discardableResult
  public func expect(
    _ node: String, inOrder patterns: [StatePattern], within timeout: Duration = .seconds(10),
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> [StateChange] {
    try await storingCallSite(fileID, filePath, line, column) {
      try await expect(node, StateSearch(patterns, .inOrder), timeout)
    }
  }

  /// Waits until the node has been in consecutive states that match `patterns`, in this order.
  @discardableResult
  public func expect(
    _ node: String, exactly patterns: [StatePattern], within timeout: Duration = .seconds(10),
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> [StateChange] {
    try await storingCallSite(fileID, filePath, line, column) {
      try await expect(node, StateSearch(patterns, .exactly), timeout)
    }
  }

  private func expect(
    _ node: String, _ search: StateSearch, _ timeout: Duration
  ) async throws -> [StateChange] {
    if search.patterns.isEmpty { return [] }
    let known = try await client.directory(fresh: false)
    if known[node: node] == nil, let instance = InstanceName(node),
      known.processes(of: instance.node).first?.instanceField != nil
    {
      try await watchInstance(node)
    } else if known[node: node] == nil {
      throw TopologyClientError.unknownNode(node, known: known.nodes.map(\.name))
    }
    if let recorded = options.recordedNodes, !recorded.contains(node) {
      throw await failure(
        "the states of node '\(node)' are not recorded; add the node to 'recordedNodes' of "
          + "the options, or use 'expectStatus'")
    }
    let waitResult = try await history.find(search, of: node, within: timeout, directory: directory)
    if case .found(let found?) = waitResult { return found }
    try Task.checkCancellation()
    throw await failure(
      "timed out: node '\(node)' was not \(search.description) within \(timeout.shortText)",
      of: node, after: waitResult.stall)
  }

  /// Returns the recorded states of the node, oldest first.
  public func recordedStates(of node: String) -> [StateChange] { history.states(of: node) }

  /// Waits until the orchestrator's information about the node satisfies `predicate`.
  ///
  /// ```swift
  /// try await elevator.expectStatus(of: "door", "two restarts") { $0.restarts == 2 }
  /// ```
  /// - Parameter description: A description of the expectation, for messages.
  @discardableResult
  public func expectStatus(
    of node: String, _ description: String, within timeout: Duration = .seconds(10),
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column, where predicate: (NodeInformation) -> Bool
  ) async throws -> NodeInformation {
    try await storingCallSite(fileID, filePath, line, column) {
      var lastInformation: NodeInformation?
      let waitResult = try await pollUntilStalled(
        every: .milliseconds(10), within: timeout, of: directory
      ) {
        let information = try client.node(node, in: await client.directory(fresh: true))
        lastInformation = information
        return predicate(information) ? information : nil
      }
      if let found = waitResult.value { return found }
      let lastStatus = lastInformation.flatMap { try? JSONValue(encoding: $0).text } ?? "nothing"
      throw await failure(
        "timed out: node '\(node)': expected \(description) within \(timeout.shortText); "
          + "last status: \(lastStatus)", of: node, after: waitResult.stall)
    }
  }

  /// Waits until a line of the node's log contains the text.
  /// - Returns: The line.
  @discardableResult
  public func expectLog(
    _ node: String, contains text: String, within timeout: Duration = .seconds(10),
    fileID: String = #fileID, filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> String {
    try await storingCallSite(fileID, filePath, line, column) {
      let waitResult = try await pollUntilStalled(
        every: .milliseconds(10), within: timeout, of: directory
      ) {
        logs(node).first { $0.contains(text) }
      }
      if let found = waitResult.value { return found }
      throw await failure(
        "timed out: no line with '\(text)' in the log of node '\(node)' within "
          + "\(timeout.shortText)", of: node, after: waitResult.stall)
    }
  }

  /// Waits until the topology has ended.
  /// - Returns: The exit code of the orchestrator. If a signal ended the orchestrator, the result
  ///   is 128 plus the number of the signal.
  @discardableResult
  public func expectEnd(
    within timeout: Duration = .seconds(30), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line,
    column: UInt = #column
  ) async throws -> Int32 {
    try await storingCallSite(fileID, filePath, line, column) {
      let waitResult = try await orchestrator.waitForEnd(within: timeout)
      guard let exit = waitResult.value else {
        throw await failure(
          "timed out: the topology did not end within \(timeout.shortText)", after: waitResult.stall
        )
      }
      state.withLock { $0.hasWaitedForEnd = true }
      return switch exit {
      case .exited(let code): code
      case .signalled(let number): 128 + number
      // These exits do not occur for a child process, whose exit status is always known.
      case .unreported, .unobserved, .leaseExpired: -1
      }
    }
  }
}
