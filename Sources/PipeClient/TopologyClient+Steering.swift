import PipeMachines
import PipeSupport
import PipeWire

extension TopologyClient {
  /// Returns the description of a node's machine.
  /// - Throws: ``TopologyClientError``: `failed` if the node has not described itself yet.
  public func describe(_ node: String) async throws -> MachineDescription {
    let node = InstanceName(node)?.node ?? node
    try await checkNodesExist([node])
    return try await command(.describe(node: node)).extract {
      if case .description(let description) = $0 { description } else { nil }
    }
  }

  /// Returns the composites by conflict class. Each class has one coordinator.
  package func conflictClasses() async throws -> [ConflictClassPlan] {
    try await command(.composites).extract {
      if case .composites(let classes) = $0 { classes } else { nil }
    }
  }

  /// Starts nodes that are stopped or failed, and waits until they run.
  public func start(_ nodes: [String], within timeout: Duration = .seconds(30)) async throws {
    try await answer(to: .start(nodes: nodes), nodes, within: timeout, "run").expectDone()
  }

  /// Stops nodes gracefully, and waits until their processes have ended.
  public func stop(_ nodes: [String], within timeout: Duration = .seconds(30)) async throws {
    try await answer(to: .stop(nodes: nodes), nodes, within: timeout, "end").expectDone()
  }

  /// Stops nodes gracefully, starts them again, and waits until the new processes run.
  public func restart(_ nodes: [String], within timeout: Duration = .seconds(30)) async throws {
    try await answer(to: .restart(nodes: nodes), nodes, within: timeout, "run again").expectDone()
  }

  /// Starts nodes and, if requested, all their dependencies.
  /// - Parameter timeout: The maximum wait until the nodes run. If `nil`, the call does not wait.
  /// - Returns: The nodes that this call has requested to run.
  package func bringUp(
    _ nodes: [String], withDependencies: Bool, within timeout: Duration?
  ) async throws -> [String] {
    let command = ControlCommand.bringUp(
      nodes: nodes, withDependencies: withDependencies, waits: timeout != nil)
    guard let timeout else {
      try await checkNodesExist(nodes)
      return try await self.command(command).extractNodes()
    }
    return try await answer(to: command, nodes, within: timeout, "run").extractNodes()
  }

  /// Stops nodes and all their dependents, and waits until their processes have ended. Dependents
  /// stop before the nodes on which they depend.
  /// - Returns: The nodes that this call stops.
  package func bringDown(
    _ nodes: [String], within timeout: Duration
  ) async throws -> [String] {
    try await answer(to: .bringDown(nodes: nodes), nodes, within: timeout, "end").extractNodes()
  }

  /// Sends a signal to a node's process, as `kill` does. The node's restart policy applies.
  public func kill(_ node: String, signal: Int32 = 9) async throws {
    try await checkNodesExist([node])
    try await command(.kill(node: node, signal: signal)).expectDone()
  }

  /// Asks the topology to end, and does not wait for the end.
  /// - Parameter force: Whether to kill the nodes instead of stopping them gracefully.
  public func down(force: Bool = false) async throws {
    try await command(force ? .forceDown : .down).expectDone()
  }

  /// Asks the topology to end, and waits until its processes have ended.
  /// - Returns: The outcome; `nil` if the orchestrator ended without reporting the outcome.
  /// - Throws: ``TopologyClientError``: `notAnswering` if the orchestrator does not accept the
  ///   command within `patience`; `timedOut` if the topology does not end within `timeout`.
  package func end(
    force: Bool, patience: Duration, within timeout: Duration
  ) async throws -> TopologyOutcome? {
    let topology = topology
    let timeoutError = TopologyClientError.timedOut(
      "after \(timeout.shortText): topology '\(topology)' is still stopping"
        + (force ? "" : "; 'orchestrator down --force' kills its processes"))
    let answer: ControlAnswer = try await call { sockets, resume in
      let progress = Locked((isAccepted: false, isCompleted: false))
      @Sendable func complete(_ result: Result<ControlAnswer, TopologyClientError>) {
        let isFirst = progress.withLock { progress in
          defer { progress.isCompleted = true }
          return !progress.isCompleted
        }
        if isFirst { resume(result) }
      }
      let noAnswerError = TopologyClientError.notAnswering(topology, after: patience)
      // Requests the outcome before it sends the command, since the topology may end immediately
      // after the command.
      sockets.control.command(.outcome, timeout: timeout, timeoutError: timeoutError) { result in
        let isAccepted = progress.withLock { $0.isAccepted }
        complete(isAccepted ? result : result.mapError { $0 == timeoutError ? noAnswerError : $0 })
      }
      sockets.control.command(
        force ? .forceDown : .down, timeout: patience, timeoutError: noAnswerError
      ) {
        result in
        switch result {
        case .success: progress.withLock { $0.isAccepted = true }
        case .failure: complete(result)
        }
      }
    }
    guard case .ended(let outcome) = answer else { return nil }
    return outcome
  }

  /// Asks the orchestrator to read and check a topology file, and returns the changes that the file
  /// would make.
  /// - Throws: `TopologyErrors` if the file has errors.
  package func plan(
    _ request: ChangeRequest, within timeout: Duration
  ) async throws -> PlannedChange {
    let timeoutError = TopologyClientError.timedOut(
      "after \(timeout.shortText), waiting for '\(request.file)' to be checked; nothing was changed"
    )
    return try await command(.plan(request), timeout: timeout, timeoutError: timeoutError).extract {
      if case .planned(let planned) = $0 { planned } else { nil }
    }
  }

  /// Applies a planned change, and waits until the new processes run.
  /// - Returns: The nodes whose programs are not replaced yet, because the change has paused.
  @discardableResult
  package func apply(
    _ planned: PlannedChange, within timeout: Duration
  ) async throws -> [String] {
    let timeoutError = TopologyClientError.timedOut(
      "after \(timeout.shortText), waiting for the change to be applied; the orchestrator "
        + "continues to apply the change")
    let answer = try await command(
      .apply(plan: planned.number), timeout: timeout, timeoutError: timeoutError)
    if case .affected(let nodes) = answer { return nodes }
    try answer.expectDone()
    return []
  }

  /// Asks the orchestrator to write a backup, and waits until the backup is complete.
  /// - Parameter file: The absolute path of the backup.
  package func backUp(
    into file: String, within timeout: Duration
  ) async throws -> BackupReport {
    let timeoutError = TopologyClientError.timedOut(
      "after \(timeout.shortText), waiting for the backup '\(file)'; the orchestrator continues to "
        + "write the backup")
    return try await command(.backup(file: file), timeout: timeout, timeoutError: timeoutError)
      .extract { if case .backedUp(let report) = $0 { report } else { nil } }
  }

  /// Sends a command about nodes, and waits for the answer.
  /// - Parameter goal: A verb for the condition that the call waits for. The timeout error contains
  ///   this verb.
  private func answer(
    to command: ControlCommand, _ nodes: [String], within timeout: Duration, _ goal: String
  ) async throws -> ControlAnswer {
    try await checkNodesExist(nodes)
    let names = nodes.map { "'\($0)'" }.joined(separator: ", ")
    let text =
      "after \(timeout.shortText), waiting for \(names) to \(goal); the orchestrator keeps trying"
    let timeoutError = TopologyClientError.timedOut(text)
    do {
      return try await self.command(command, timeout: timeout, timeoutError: timeoutError)
    } catch let error as TopologyClientError where error == timeoutError {
      throw TopologyClientError.timedOut(text + (await reasons(of: nodes)))
    }
  }

  /// Returns the known reasons why nodes have not reached the expected phase, such as `: 'motor':
  /// waits for 'door'`.
  private func reasons(of nodes: [String]) async -> String {
    guard let directory = try? await directory(fresh: false) else { return "" }
    let known = nodes.flatMap(directory.processes).compactMap { node in
      node.reason.map { "'\(node.name)': \($0)" }
    }
    return known.isEmpty ? "" : ": " + known.joined(separator: "; ")
  }

  private func checkNodesExist(_ nodes: [String]) async throws {
    let directory = try await directory(fresh: false)
    for name in nodes where directory.shards(of: name).isEmpty {
      _ = try node(name, in: directory)
    }
  }
}

extension ControlAnswer {
  /// Returns the value in an answer.
  /// - Parameter value: Extracts the value; returns `nil` if the answer is of another kind.
  /// - Throws: The orchestrator's error, if the answer is an error.
  func extract<Value>(_ value: (ControlAnswer) -> Value?) throws -> Value {
    switch self {
    case .failed(let reason): throw TopologyClientError.failed(reason)
    case .invalid(let diagnostics): throw TopologyErrors(diagnostics)
    case .done, .directory, .description, .composites, .affected, .planned, .ended, .logs,
      .deadLetters, .journal, .instances, .backedUp:
      break
    }
    guard let value = value(self) else { throw TopologyClientError.unexpectedAnswer }
    return value
  }

  fileprivate func expectDone() throws { try extract { $0 == .done ? () : nil } }

  fileprivate func extractNodes() throws -> [String] {
    try extract { if case .affected(let nodes) = $0 { nodes } else { nil } }
  }
}
