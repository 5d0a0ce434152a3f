import PipeMachines
import PipeSupport
import PipeWire

extension TopologyClient {
  /// What a node's machine tells of itself.
  /// - Throws: ``TopologyClientError``: `failed` where the node has not described itself yet.
  public func describe(_ node: String) async throws -> MachineDescription {
    try await check([node])
    switch try await command(.describe(node: node)) {
    case .description(let description): return description
    case .failed(let reason): throw TopologyClientError.failed(reason)
    case .done, .directory, .composites, .steered, .planned, .invalid, .ended:
      throw TopologyClientError.failed("an answer out of place")
    }
  }

  /// The composites, in classes of which each has one coordinator.
  package func conflictClasses() async throws -> [ConflictClassPlan] {
    switch try await command(.composites) {
    case .composites(let classes): return classes
    case .failed(let reason): throw TopologyClientError.failed(reason)
    case .done, .directory, .description, .steered, .planned, .invalid, .ended:
      throw TopologyClientError.failed("an answer out of place")
    }
  }

  /// Starts nodes that are stopped or failed, and waits until they run.
  public func start(_ nodes: [String], within timeout: Duration = .seconds(30)) async throws {
    try await steer(.start(nodes: nodes), nodes, within: timeout, "run")
  }

  /// Stops nodes in order, and waits until their processes have ended.
  public func stop(_ nodes: [String], within timeout: Duration = .seconds(30)) async throws {
    try await steer(.stop(nodes: nodes), nodes, within: timeout, "end")
  }

  /// Stops nodes in order and starts them again, and waits until the new ones run.
  public func restart(_ nodes: [String], within timeout: Duration = .seconds(30)) async throws {
    try await steer(.restart(nodes: nodes), nodes, within: timeout, "run again")
  }

  /// Starts nodes, and where wanted all that they depend on.
  /// - Parameter timeout: The longest wait until they run; `nil` does not wait.
  /// - Returns: The nodes that were to run.
  package func bringUp(
    _ nodes: [String], withDependencies: Bool, within timeout: Duration?
  ) async throws -> [String] {
    let command = ControlCommand.bringUp(
      nodes: nodes, withDependencies: withDependencies, waits: timeout != nil)
    guard let timeout else {
      try await check(nodes)
      return try steered(await self.command(command))
    }
    return try await bring(command, nodes, within: timeout, "run")
  }

  /// Stops nodes and all that depend on them, those first, and waits until their processes have ended.
  /// - Returns: The nodes that were to end.
  package func bringDown(
    _ nodes: [String], within timeout: Duration
  ) async throws -> [String] {
    try await bring(.bringDown(nodes: nodes), nodes, within: timeout, "end")
  }

  /// Sends a signal to a node's process, as `kill` does; its restart policy applies.
  public func kill(_ node: String, signal: Int32 = 9) async throws {
    try await check([node])
    try done(await command(.kill(node: node, signal: signal)))
  }

  /// Asks for the topology's end, and returns as soon as it was asked for.
  /// - Parameter force: Kills the nodes, instead of stopping them in order.
  public func down(force: Bool = false) async throws {
    try done(await command(force ? .forceDown : .down))
  }

  /// Asks for the topology's end, and waits until its processes have ended.
  /// - Returns: How it ended; `nil` where the orchestrator goes without telling.
  /// - Throws: ``TopologyClientError/notAnswering(_:after:)`` where it does not take the command
  ///   within `patience`, and `timedOut` where it does not come to an end within `timeout`.
  package func end(
    force: Bool, patience: Duration, within timeout: Duration
  ) async throws -> TopologyOutcome? {
    let topology = topology
    let late = TopologyClientError.timedOut(
      "after \(timeout.shortText): '\(topology)' is still ending"
        + (force ? "" : "; 'orchestrator down --force' kills it"))
    let answer: ControlAnswer = try await call { sockets, resume in
      let progress = Locked((isTaken: false, isTold: false))
      @Sendable func tell(_ result: Result<ControlAnswer, TopologyClientError>) {
        let isFirst = progress.withLock { progress in
          defer { progress.isTold = true }
          return !progress.isTold
        }
        if isFirst { resume(result) }
      }
      let silence = TopologyClientError.notAnswering(topology, after: patience)
      // Asked for before the end begins, which may come at once.
      sockets.command(.outcome, timeout: timeout, late: late) { result in
        let isTaken = progress.withLock { $0.isTaken }
        tell(isTaken ? result : result.mapError { $0 == late ? silence : $0 })
      }
      sockets.command(force ? .forceDown : .down, timeout: patience, late: silence) { result in
        switch result {
        case .success: progress.withLock { $0.isTaken = true }
        case .failure: tell(result)
        }
      }
    }
    guard case .ended(let outcome) = answer else { return nil }
    return outcome
  }

  /// Has the orchestrator read and check a file, and tell what it changes.
  /// - Throws: `TopologyErrors` where the file is wrong.
  package func plan(
    _ request: ChangeRequest, within timeout: Duration
  ) async throws -> PlannedChange {
    let late = TopologyClientError.timedOut(
      "after \(timeout.shortText), waiting for '\(request.file)' to be checked; nothing is changed")
    switch try await command(.plan(request), timeout: timeout, late: late) {
    case .planned(let planned): return planned
    case .invalid(let diagnostics): throw TopologyErrors(diagnostics)
    case .failed(let reason): throw TopologyClientError.failed(reason)
    case .done, .directory, .description, .composites, .steered, .ended:
      throw TopologyClientError.failed("an answer out of place")
    }
  }

  /// Has the topology go over to a file that was planned, and waits until what is new in it runs.
  package func apply(_ planned: PlannedChange, within timeout: Duration) async throws {
    let late = TopologyClientError.timedOut(
      "after \(timeout.shortText), waiting for the change to come through; the orchestrator goes "
        + "on with it")
    try done(await command(.apply(plan: planned.number), timeout: timeout, late: late))
  }

  private func steer(
    _ command: ControlCommand, _ nodes: [String], within timeout: Duration, _ goal: String
  ) async throws {
    try done(await answer(to: command, nodes, within: timeout, goal))
  }

  private func bring(
    _ command: ControlCommand, _ nodes: [String], within timeout: Duration, _ goal: String
  ) async throws -> [String] {
    try steered(await answer(to: command, nodes, within: timeout, goal))
  }

  private func answer(
    to command: ControlCommand, _ nodes: [String], within timeout: Duration, _ goal: String
  ) async throws -> ControlAnswer {
    try await check(nodes)
    let names = nodes.map { "'\($0)'" }.joined(separator: ", ")
    let text =
      "after \(timeout.shortText), waiting for \(names) to \(goal); the orchestrator goes on trying"
    let late = TopologyClientError.timedOut(text)
    do {
      return try await self.command(command, timeout: timeout, late: late)
    } catch let error as TopologyClientError where error == late {
      throw TopologyClientError.timedOut(text + (await reasons(of: nodes)))
    }
  }

  /// Why nodes are not where they should be, as far as that is known: `: 'motor' waits for 'door'`.
  private func reasons(of nodes: [String]) async -> String {
    guard let directory = try? await directory(fresh: false) else { return "" }
    let known = nodes.compactMap { name in
      directory[node: name]?.reason.map { "'\(name)' \($0)" }
    }
    return known.isEmpty ? "" : ": " + known.joined(separator: "; ")
  }

  private func check(_ nodes: [String]) async throws {
    let directory = try await directory(fresh: false)
    for name in nodes { _ = try node(name, in: directory) }
  }

  private func steered(_ answer: ControlAnswer) throws -> [String] {
    switch answer {
    case .steered(let nodes): return nodes
    case .failed(let reason): throw TopologyClientError.failed(reason)
    case .done, .directory, .description, .composites, .planned, .invalid, .ended:
      throw TopologyClientError.failed("an answer out of place")
    }
  }

  private func done(_ answer: ControlAnswer) throws {
    switch answer {
    case .done: return
    case .failed(let reason): throw TopologyClientError.failed(reason)
    case .directory, .description, .composites, .steered, .planned, .invalid, .ended:
      throw TopologyClientError.failed("an answer out of place")
    }
  }
}
