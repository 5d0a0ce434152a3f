import PipeRuntime
import PipeSupervision

/// A file that the topology may go over to, and what it would change.
struct ShownChange {
  let number: UInt64
  let plan: LaunchPlan
  let change: TopologyChange
}

/// The way to a new file: it is loaded beside the loop, told to the client, and applied when that asks.
extension Supervisor {
  static let changeUnderWay =
    "another change is under way: try again when that has come through"

  /// Why no file can be applied, and no nodes ended in order, now.
  var obstacleToChange: String? {
    switch lifecycle.state {
    case .starting, .running: nil
    case .changing: Self.changeUnderWay
    case .idle: "'\(plan.topology)' is not started yet"
    case .stopping, .finished: "'\(plan.topology)' is going down: 'orchestrator up' starts it again"
    }
  }

  /// Loads a file, which takes seconds, and answers with what it changes.
  func plan(_ request: ChangeRequest, from peer: [UInt8], id: UInt64) {
    if let obstacle = obstacleToChange { return answer(.failed(obstacle), to: peer, id: id) }
    if !request.isDryRun {
      guard !isPlanning else { return answer(.failed(Self.changeUnderWay), to: peer, id: id) }
      isPlanning = true
    }
    let name = request.keepsName ? plan.topology : nil
    let owner = LoopOwned(self)
    let handle = loop.handle
    loader.handle.post {
      let loaded: Result<LoadedTopology, TopologyErrors>
      do throws(TopologyErrors) {
        loaded = .success(
          try LoadedTopology.load(.file(request.file), name: name, variables: request.variables))
      } catch {
        loaded = .failure(error)
      }
      handle.post { owner.value.took(loaded, for: request, from: peer, id: id) }
    }
  }

  private func took(
    _ loaded: Result<LoadedTopology, TopologyErrors>, for request: ChangeRequest,
    from peer: [UInt8], id: UInt64
  ) {
    if !request.isDryRun { isPlanning = false }
    let answer: ControlAnswer
    do {
      answer = .planned(try show(loaded.get(), for: request))
    } catch let errors as TopologyErrors {
      answer = .invalid(errors.diagnostics)
    } catch let error as CommandError {
      answer = .failed(error.message)
    } catch {
      answer = .failed("\(error)")
    }
    self.answer(answer, to: peer, id: id)
  }

  private func show(
    _ loaded: LoadedTopology, for request: ChangeRequest
  ) throws -> PlannedChange {
    let name = loaded.topology.name
    guard name == plan.topology else {
      throw CommandError(
        "'\(request.file)' is of topology '\(name)', and not of '\(plan.topology)': "
          + "'-p \(plan.topology)' applies it all the same")
    }
    let next = try LaunchPlan(loaded, directories: directories)
    try next.raiseOpenFileLimit()
    let change = change(to: next)
    lastPlan += 1
    if !request.isDryRun { shown = ShownChange(number: lastPlan, plan: next, change: change) }
    return PlannedChange(number: lastPlan, change: change, warnings: loaded.warnings)
  }

  private func change(to next: LaunchPlan) -> TopologyChange {
    TopologyChange(
      from: plan.nodes.map { node in
        let launch = records[node.information.name]?.launch ?? plan.launch(of: node)
        return .init(node.supervision, launch: launch, watched: node.watched)
      },
      to: next.nodes.map { node in
        .init(node.supervision, launch: next.launch(of: node), watched: node.watched)
      },
      states: Dictionary(
        plan.nodes.compactMap { node in
          let name = node.information.name
          return lifecycle[name].map { (name, $0.state) }
        }
      ) { first, _ in first })
  }

  /// Goes over to the file that was told under this number, and answers when what is new in it runs.
  func apply(_ number: UInt64, from peer: [UInt8], id: UInt64) {
    if let obstacle = obstacleToChange { return answer(.failed(obstacle), to: peer, id: id) }
    guard let shown, shown.number == number, change(to: shown.plan) == shown.change else {
      return answer(
        .failed("the topology has changed since the plan was made: apply the file again"),
        to: peer, id: id)
    }
    self.shown = nil
    next = shown
    let changes = lifecycle.changes
    handle(
      .change(
        .init(
          members: shown.plan.nodes.map(\.supervision), replaced: shown.change.replaced,
          incarnations: incarnations.counts, seed: .random(in: .min ... .max))))
    let started = shown.change.started
    waiting.append(
      WaitingCommand(peer: peer, id: id) { $0.answer(toChange: changes + 1, starting: started) })
    answerWaiting()
  }

  /// Takes the new plan, once nothing runs any more that it changes.
  func goOver() {
    guard let next else { return }
    self.next = nil
    let names = Set(next.plan.nodes.map(\.information.name))
    for name in plan.nodes.map(\.information.name) where !names.contains(name) {
      note("removed: the topology has it no more", in: name)
      records[name] = nil
      logs[name] = nil
    }
    plan = next.plan
    let replaced = next.change.replaced
    for node in plan.nodes {
      let name = node.information.name
      if logs[name] == nil { logs[name] = LogWriter(node: name, in: directories) }
      if records[name] == nil { records[name] = NodeRecord() }
      if replaced.contains(name) {
        records[name]?.launch = nil
        records[name]?.description = nil
      }
      if let description = node.description { records[name]?.description = description }
    }
    lock.goOn(with: plan.file)
  }
}

extension TopologyLifecycle {
  /// What a client is told of a change; `nil` while it must wait.
  fileprivate func answer(toChange number: Int, starting started: [String]) -> ControlAnswer? {
    switch state {
    case .idle, .changing: return nil
    case .stopping(let outcome, _), .finished(let outcome):
      return .failed("the topology goes down" + (outcome.reason.map { ": \($0)" } ?? ""))
    case .starting, .running: break
    }
    guard changes == number else {
      return .failed("another change of the file has come before all of this one ran")
    }
    var isComplete = true
    for name in started {
      guard let node = self[name] else { continue }
      if case .failed(let reason) = node.state {
        return .failed("node '\(name)' failed: \(reason). The rest goes by the new file")
      }
      if let obstacle = obstacles[name] {
        return .failed("node '\(name)' waits for \(obstacle). The rest goes by the new file")
      }
      if node.state != .running, !node.state.hasEnded { isComplete = false }
    }
    guard isComplete else { return nil }
    guard let problem = changeProblems.first else { return .done }
    return .failed(
      "node '\(problem.node)' did not stop in order: \(problem.reason); 'orchestrator logs "
        + "\(problem.node)' may tell why. All goes by the new file")
  }
}
