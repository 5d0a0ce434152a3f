import FoundationEssentials
import Glibc
import PipeRuntime
import PipeSupervision

/// A command that is answered when its condition holds.
struct WaitingCommand {
  let peer: [UInt8]
  let id: UInt64
  /// The answer, or `nil` while it must wait.
  let answer: (TopologyLifecycle) -> ControlAnswer?
}

/// One round of asking every node for its status.
struct Survey {
  let sequence: UInt64
  var missing: Set<String>
  var askers: [(peer: [UInt8], id: UInt64)]
}

extension Supervisor {
  /// How long nodes have to answer before the directory is given without them.
  private static let surveyTimeout: Duration = .milliseconds(300)

  func take(_ header: FrameHeader, _ body: Data, from peer: [UInt8]) {
    guard let command = try? JSONDecoder().decode(ControlCommand.self, from: body) else {
      return answer(
        .failed("this orchestrator does not know the command; is the client of another version?"),
        to: peer, id: header.sequence)
    }
    perform(command, from: peer, id: header.sequence)
  }

  private func perform(_ command: ControlCommand, from peer: [UInt8], id: UInt64) {
    switch command.addressed(by: plan) {
    case .directory(let fresh):
      if fresh {
        startSurvey(for: peer, id: id)
      } else {
        answer(.directory(directory()), to: peer, id: id)
      }
    case .describe(let node):
      guard check([node], from: peer, id: id) else { return }
      let answer: ControlAnswer =
        records[node]?.description.map { .description($0) }
        ?? .failed("node '\(node)' has not described itself yet")
      self.answer(answer, to: peer, id: id)
    case .composites:
      answer(
        .composites(plan.nodes.compactMap { $0.configuration.plan?.conflictClass }), to: peer,
        id: id)
    case .bringUp(let nodes, let withDependencies, let waits):
      bringUp(nodes, withDependencies: withDependencies, waits: waits, from: peer, id: id)
    case .bringDown(let nodes): bringDown(nodes, from: peer, id: id)
    case .plan(let request): plan(request, from: peer, id: id)
    case .apply(let number): apply(number, from: peer, id: id)
    case .stop(let nodes):
      steer(nodes, .stopRequested, from: peer, id: id) { state, _ in state.hasEnded }
    case .start(let nodes):
      steer(nodes, .start, from: peer, id: id) { state, _ in state == .running }
    case .restart(let nodes):
      steer(nodes, .restartRequested, from: peer, id: id) { state, isNew in
        isNew && state == .running
      }
    case .kill(let node, let number):
      guard check([node], from: peer, id: id) else { return }
      guard let process = processes[node] else {
        return answer(.failed("node '\(node)' has no process"), to: peer, id: id)
      }
      let sent = process.signal(Signal(number: number))
      answer(sent ? .done : .failed("signal \(number) was not accepted"), to: peer, id: id)
    case .down:
      answer(.done, to: peer, id: id)
      if !isStopping { requestStop() }
    case .forceDown:
      answer(.done, to: peer, id: id)
      if !isStopping { requestStop() }
      requestStop()
    case .outcome:
      waiting.append(
        WaitingCommand(peer: peer, id: id) { lifecycle in
          if case .finished(let outcome) = lifecycle.state { .ended(outcome) } else { nil }
        })
    }
  }

  /// Hands an input to nodes and answers once all are where it should lead, or have failed.
  /// - Parameter answer: What is answered where all went well.
  func steer(
    _ nodes: [String], _ input: NodeLifecycle.Input, from peer: [UInt8], id: UInt64,
    answer: ControlAnswer = .done,
    until arrived: @escaping (NodeLifecycle.State, _ isNew: Bool) -> Bool
  ) {
    guard check(nodes, from: peer, id: id) else { return }
    if case .changing = lifecycle.state {
      return self.answer(.failed(Self.changeUnderWay), to: peer, id: id)
    }
    let before = nodes.map { lifecycle[$0]?.incarnation ?? 0 }
    // Judged only after the input was handled: what had failed before may start now.
    for node in nodes { handle(.node(node, input)) }
    waiting.append(
      WaitingCommand(peer: peer, id: id) { lifecycle in
        for (node, incarnation) in zip(nodes, before) {
          guard let now = lifecycle[node] else { continue }
          if case .failed(let reason) = now.state, input != .stopRequested {
            return .failed("node '\(node)' failed: \(reason)")
          }
          if let obstacle = lifecycle.obstacles[node], input != .stopRequested {
            return .failed("node '\(node)' waits for \(obstacle): start that, too")
          }
          if !arrived(now.state, now.incarnation > incarnation) { return nil }
        }
        guard input != .start else { return answer }
        return lifecycle.stopProblem(of: nodes).map(ControlAnswer.failed) ?? answer
      })
    answerWaiting()
  }

  func check(_ nodes: [String], from peer: [UInt8], id: UInt64) -> Bool {
    guard let unknown = nodes.first(where: { records[$0] == nil }) else { return true }
    let known = plan.nodes.map { "'\($0.information.name)'" }.joined(separator: ", ")
    answer(.failed("there is no node '\(unknown)'; there are \(known)"), to: peer, id: id)
    return false
  }

  func answerWaiting() {
    guard !waiting.isEmpty else { return }
    waiting.removeAll { command in
      guard let answer = command.answer(lifecycle) else { return false }
      self.answer(answer, to: command.peer, id: command.id)
      return true
    }
  }

  func answer(_ answer: ControlAnswer, to peer: [UInt8], id: UInt64) {
    guard let body = try? JSONEncoder().encode(answer) else { return }
    control.send(FrameHeader(.answer, sequence: id), body: body, to: peer)
  }

  // MARK: The directory

  private func startSurvey(for peer: [UInt8], id: UInt64) {
    // Who asks during a round gets the next one: answers of this round may be older than the ask.
    guard survey == nil else {
      lateAskers.append((peer, id))
      return
    }
    let running = processes.keys.filter { lifecycle[$0]?.state == .running }
    lastSurvey += 1
    let sequence = lastSurvey
    survey = Survey(sequence: sequence, missing: Set(running), askers: [(peer, id)])
    pingAll(sequence: sequence)
    if running.isEmpty { return endSurvey() }
    loop.schedule(after: Self.surveyTimeout, for: self) {
      if $0.survey?.sequence == sequence { $0.endSurvey() }
    }
  }

  func answered(_ node: String, survey sequence: UInt64) {
    guard survey?.sequence == sequence else { return }
    survey?.missing.remove(node)
    if survey?.missing.isEmpty == true { endSurvey() }
  }

  private func endSurvey() {
    let askers = survey?.askers ?? []
    survey = nil
    let directory = directory()
    for asker in askers { answer(.directory(directory), to: asker.peer, id: asker.id) }
    let late = lateAskers
    lateAskers = []
    guard let first = late.first else { return }
    startSurvey(for: first.peer, id: first.id)
    survey?.askers += late.dropFirst()
  }

  /// The topology as it is known now.
  func directory() -> TopologyDirectory {
    let nodes = plan.nodes.flatMap { node in
      var information = node.information
      let record = records[information.name]
      if let lifecycle = lifecycle[information.name] {
        information.phase =
          lifecycle.state.hasEnded && self.lifecycle.isReturning(information.name)
          ? "starting" : lifecycle.state.name
        information.isRunning = lifecycle.state == .running
        information.pid = lifecycle.pid
        information.incarnation = UInt64(lifecycle.incarnation)
        information.restarts = UInt64(max(lifecycle.starts - 1, 0))
      }
      information.reason = record?.reason ?? record?.statusProblem?.description
      information.startedAt = information.pid == nil ? nil : record?.startedAt
      information.status = record?.status
      information.stateFields = record?.description?.stateFields?.map(\.name)
      information.doubts = record?.status?.doubt.map { [$0] } ?? []
      return node.composites.isEmpty
        ? [information]
        : node.composites.map { composite in
          var row = information.row(of: composite)
          row.doubts = composite.nodes.compactMap { records[$0]?.status?.doubt }
          return row
        }
    }
    return TopologyDirectory(
      topology: plan.topology, file: plan.file, pid: getpid(),
      phase: lifecycle.state.name,
      isRunning: lifecycle.state == .running
        && nodes.allSatisfy {
          $0.isRunning || lifecycle[plan.process(of: $0.name)]?.state.hasEnded == true
        },
      nodes: nodes, pipes: plan.pipes)
  }
}

extension ControlCommand {
  /// The command with the names of processes in place of those of composites.
  fileprivate func addressed(by plan: LaunchPlan) -> ControlCommand {
    func processes(of names: [String]) -> [String] {
      var seen: Set<String> = []
      return names.map(plan.process).filter { seen.insert($0).inserted }
    }
    return switch self {
    case .describe(let node): .describe(node: plan.process(of: node))
    case .start(let nodes): .start(nodes: processes(of: nodes))
    case .stop(let nodes): .stop(nodes: processes(of: nodes))
    case .restart(let nodes): .restart(nodes: processes(of: nodes))
    case .kill(let node, let signal): .kill(node: plan.process(of: node), signal: signal)
    case .bringDown(let nodes): .bringDown(nodes: processes(of: nodes))
    // What a composite needs is more than its process.
    case .bringUp: self
    case .directory, .composites, .plan, .apply, .down, .forceDown, .outcome: self
    }
  }
}

extension TopologyLifecycle {
  /// What was wrong with the last end of one of these nodes.
  func stopProblem(of nodes: [String]) -> String? {
    for node in nodes {
      guard let problem = self[node]?.stopProblem else { continue }
      return "node '\(node)' did not stop in order: \(problem); 'orchestrator logs \(node)' may "
        + "tell why"
    }
    return nil
  }
}

extension TopologyLifecycle.State {
  /// One word for tables.
  var name: String {
    switch self {
    case .idle: "idle"
    case .starting: "starting"
    case .running: "running"
    case .changing: "changing"
    case .stopping: "stopping"
    case .finished: "finished"
    }
  }
}
