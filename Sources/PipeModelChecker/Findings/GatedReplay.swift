import PipeClient
import PipeMachines
import PipeSupport
import PipeSupervision
import PipeTopology
import PipeWire

/// Replays the steps of a scenario on the gated nodes of a running topology.
///
/// Each node takes only the steps that the replay requests. The replay knows the contents of the
/// pipes from the reports of both ends, so it never waits for an event that does not exist.
package struct GatedReplay {
  package typealias Failure = ScenarioReplay.Failure

  /// A step that the replay has tried, for the report of a failure.
  package struct Row: Hashable, Sendable {
    package let step: String
    package let expected: String
    package fileprivate(set) var actual: String
  }

  /// The steps so far, the failed step included.
  package private(set) var rows: [Row] = []
  /// The transitions and synchronized events that the steps so far have covered. Empty if the replay
  /// does not record them.
  package private(set) var coveredItems: Set<CoverageItem> = []
  private let scenarioModel: ScenarioReplay
  private let client: TopologyClient
  private let answerTimeout: Duration
  private let recordsCoverage: Bool
  /// The last reports of the nodes whose processes have ended.
  private var lastReports: [String: GateReport] = [:]
  private var endedNodes: Set<String> = []

  private var loaded: LoadedTopology { scenarioModel.loaded }
  private var model: TopologyModel { scenarioModel.model }

  /// - Parameters:
  ///   - client: A client of the running topology, whose nodes are gated.
  ///   - recordsCoverage: Whether to record the covered transitions. The replay then asks nodes for
  ///     their states before and after each step.
  ///   - answerTimeout: The maximum time for the answer of a node to a request.
  package init(
    _ loaded: LoadedTopology, client: TopologyClient, recordsCoverage: Bool = false,
    answerTimeout: Duration = .seconds(60)
  ) throws {
    scenarioModel = try ScenarioReplay(loaded)
    self.client = client
    self.recordsCoverage = recordsCoverage
    self.answerTimeout = answerTimeout
  }

  /// Replays all steps, and compares the outcomes with the expected outcomes.
  /// - Throws: ``ScenarioReplay/Failure`` at the first step whose outcome differs from the expected
  ///   outcome.
  package mutating func run(_ scenario: Scenario) async throws {
    for (index, step) in scenario.steps.enumerated() {
      rows.append(
        Row(step: Self.text(step.action), expected: Self.text(step.outcome), actual: ""))
      do {
        try await take(step, at: ["steps", String(index)])
        rows[index].actual = rows[index].expected
      } catch let failure as Failure {
        rows[index].actual = failure.description
        throw failure
      }
    }
    try await compare(scenario.expectedStates, at: ["end"])
    for (name, events) in scenario.expectedPipeContents.sorted(by: { $0.key < $1.key }) {
      let path = ["pipes", name]
      let contents = try await contents(of: try pipe(name, at: path), at: path).map(\.event)
      guard
        contents.map(ScenarioReplay.canonicalForm) != events.map(ScenarioReplay.canonicalForm)
      else { continue }
      throw Failure(
        path: path,
        description: "pipe '\(name)' contains \(ScenarioReplay.text(contents)) at the end, "
          + "expected \(ScenarioReplay.text(events))")
    }
  }

  // MARK: Steps

  /// The result of a step.
  private enum Result {
    case accepted
    /// The refusing nodes, each with its reason.
    case refused([(node: String, reason: String)])
    /// The process of a node has ended during the step.
    case ended(node: String, reason: String)
  }

  private mutating func take(_ step: ScenarioStep, at path: [String]) async throws {
    let result: Result
    let subject: (owner: String, event: String)
    let movers = recordsCoverage ? scenarioModel.movers(of: step.action) : nil
    var former: [String: GateReport] = [:]
    for node in movers?.nodes ?? [] { former[node] = try await report(of: node, at: path) }
    switch step.action {
    case .takes(let owner, let event, let origin):
      subject = (owner, event.caseText)
      result = try await take(event, of: owner, from: origin, at: path)
    case .ends(let node, let effect):
      subject = (node, effect)
      try await checkIsRunning(effect, of: node, at: path + ["ends"])
      result = try await request(node, .endEffect(effect: effect), at: path)
    case .fires(let node, let delay):
      subject = (node, "timer")
      result = try await fire(delay, of: node, at: path)
    case .crash(let node):
      subject = (node, "crash")
      try await crash(node, at: path)
      result = .accepted
    case .sends:
      throw Failure(path: path, description: "this step cannot be taken on real processes")
    }
    if let movers, case .accepted = result { try await record(movers, after: former, at: path) }
    switch (step.outcome, result) {
    case (.refused(let node, let reason), .refused(let refusals)):
      let isExpected = refusals.contains {
        (node ?? $0.node) == $0.node && (reason ?? $0.reason) == $0.reason
      }
      guard isExpected else {
        throw unexpected(subject, node, reason, Self.text(refusals), at: path)
      }
    case (.refused(let node, let reason), .accepted):
      throw unexpected(subject, node, reason, "'\(subject.owner)' accepts it", at: path)
    case (.processEnds, .ended): break
    // With `on_refused: fail`, the process may end before its answer is sent.
    case (.refused, .ended) where endsIfRefused(step.action): break
    case (.processEnds, .accepted):
      throw Failure(
        path: path,
        description: "'\(subject.owner)' accepts event '\(subject.event)', but the step should end "
          + "the process")
    case (.states(let states), .accepted): try await compare(states, at: path + ["expect"])
    case (.states, .refused(let refusals)), (.processEnds, .refused(let refusals)):
      throw Failure(
        path: path,
        description: "event '\(subject.event)' should be accepted, but \(Self.text(refusals))")
    case (_, .ended(let node, let reason)):
      throw Failure(path: path, description: "the process of node '\(node)' ended: \(reason)")
    }
  }

  /// Records the transitions that a step covers.
  /// - Parameter former: The reports of the nodes before the step.
  private mutating func record(
    _ movers: ScenarioMovers, after former: [String: GateReport], at path: [String]
  ) async throws {
    if let item = movers.synchronizedEvent { coveredItems.insert(item) }
    for node in movers.nodes {
      let next = try await report(of: node, at: path)
      guard let number = model.node(named: node), let before = former[node],
        before.version != next.version
      else { continue }
      coveredItems.insert(
        model.transition(
          of: model.nodes[number], from: before.state ?? .null, on: movers.event,
          to: next.state ?? .null))
    }
  }

  /// Returns whether a node ends if it refuses the event of a step.
  private func endsIfRefused(_ action: ScenarioStep.Action) -> Bool {
    guard case .takes(_, _, .pipe(let pipe)) = action else { return false }
    return endsIfRefused(fromPipe: pipe)
  }

  private func endsIfRefused(fromPipe name: String) -> Bool {
    loaded.pipes.first { $0.name == name }?.onRefused == .fail
  }

  private static func text(_ refusals: [(node: String, reason: String)]) -> String {
    refusals.map { "'\($0.node)' refuses it (\($0.reason))" }.joined(separator: " and ")
  }

  private func unexpected(
    _ subject: (owner: String, event: String), _ node: String?, _ reason: String?, _ actual: String,
    at path: [String]
  ) -> Failure {
    Failure(
      path: path + ["refused"],
      description: "event '\(subject.event)' should be refused "
        + (node.map { "by '\($0)'" } ?? "by any node") + (reason.map { " (\($0))" } ?? "")
        + ", but \(actual)")
  }

  private mutating func take(
    _ event: JSONValue, of owner: String, from origin: ScenarioStep.Origin, at path: [String]
  ) async throws -> Result {
    let name = event.caseName ?? ""
    if model.node(named: owner) != nil {
      return try await take(event, ofNode: owner, from: origin, at: path)
    }
    guard let composite = scenarioModel.composite(of: owner) else {
      throw scenarioModel.unknownNode(owner, at: path + ["at"])
    }
    if let vector = model.vector(of: name, requestedFrom: composite.name) {
      return try await take(
        event, of: composite.name, vector.participants, from: origin, at: path)
    }
    guard
      let node = loaded.conflictClasses.lazy.compactMap({ $0[composite.name] }).first?
        .nodesByOwnEvent[name]
    else {
      throw Failure(
        path: path + ["takes"],
        description: "composite '\(owner)' does not accept event '\(name)'")
    }
    return try await take(event, ofNode: node, from: origin, at: path)
  }

  private mutating func take(
    _ event: JSONValue, ofNode node: String, from origin: ScenarioStep.Origin, at path: [String]
  ) async throws -> Result {
    if case .constant? = model.node(named: node).map({ model.nodes[$0].kind }) {
      return .refused([(node, "noTransition")])
    }
    try await checkCapacity(for: [node], at: path)
    switch origin {
    case .outside: return try await request(node, .takeOutside(event: event), at: path)
    case .pipe(let name):
      let pipe = try pipe(name, at: path + ["from"])
      let number = try await number(of: event, in: pipe, at: path)
      let before = try await report(of: node, .evaluate(event: event), at: path)
      let result = try await request(node, .takePipe(pipe: name, number: number), at: path)
      // The refusal ends the process, possibly before its answer is sent. The event stays in the
      // pipe.
      guard pipe.onRefused == .fail, case .refused(let reason) = before.outcome,
        endedNodes.contains(node)
      else { return result }
      lastReports[node] = before
      return .refused([(node, reason)])
    case .effect(let emitter, let output):
      guard emitter == node else { throw foreign(output, of: emitter, at: node, path) }
      try await checkIsRunning(output, of: node, at: path)
      return try await request(node, .takeEffect(effect: output, event: event), at: path)
    }
  }

  private func foreign(
    _ output: String, of emitter: String, at owner: String, _ path: [String]
  ) -> Failure {
    Failure(
      path: path + ["from"],
      description: "effect '\(output)' of node '\(emitter)' cannot send events to '\(owner)': the "
        + "effect belongs to another node")
  }

  /// Takes a synchronized event.
  private mutating func take(
    _ event: JSONValue, of composite: String, _ participants: [String],
    from origin: ScenarioStep.Origin, at path: [String]
  ) async throws -> Result {
    try await checkCapacity(for: participants, at: path)
    var versions: [String: UInt64] = [:]
    // The coordinator may report only some of the participants that refuse the event.
    var refusals: [(node: String, reason: String)] = []
    for node in participants {
      let report = try await report(of: node, .evaluate(event: event), at: path)
      versions[node] = report.version
      if case .refused(let reason) = report.outcome { refusals.append((node, reason)) }
    }
    switch origin {
    case .outside:
      guard try await synchronize(event, of: composite, at: path) else {
        return .refused(refusals)
      }
    case .pipe(let name):
      let number = try await number(of: event, in: try pipe(name, at: path + ["from"]), at: path)
      let result = try await request(
        composite, .takePipe(pipe: name, number: number), at: path)
      guard case .accepted = result else { return refusals.isEmpty ? result : .refused(refusals) }
    case .effect(let emitter, let output):
      guard participants.contains(emitter) else {
        throw foreign(output, of: emitter, at: composite, path)
      }
      try await checkIsRunning(output, of: emitter, at: path)
      // The effect would wait until all participants accept the event.
      guard refusals.isEmpty else { return .refused(refusals) }
      let result = try await request(
        emitter, .takeEffect(effect: output, event: event), at: path)
      guard case .accepted = result else { return result }
    }
    for node in participants {
      _ = try await report(of: node, .look(version: (versions[node] ?? 0) + 1), at: path)
    }
    return .accepted
  }

  /// Requests a synchronized event.
  /// - Returns: Whether the participants have accepted the event.
  private func synchronize(
    _ event: JSONValue, of composite: String, at path: [String]
  ) async throws -> Bool {
    let deadline = ContinuousClock.now + answerTimeout
    while true {
      switch try await client.synchronize(composite, json: event, timeout: answerTimeout) {
      case .committed: return true
      case .refused: return false
      case .busy(let nodes):
        // A participant has not received an acknowledgement yet, or has not connected yet.
        if ContinuousClock.now > deadline {
          throw noAnswer(nodes.joined(separator: "', '"), at: path)
        }
      case .unavailable(let node):
        if ContinuousClock.now > deadline { throw noAnswer(node, at: path) }
      case .unknown:
        throw Failure(
          path: path, description: "the outcome of the synchronized event is unknown")
      }
      try await Task.sleep(for: .milliseconds(2))
    }
  }

  private mutating func fire(
    _ delay: String?, of node: String, at path: [String]
  ) async throws -> Result {
    guard model.node(named: node) != nil else {
      throw scenarioModel.unknownNode(node, at: path + ["at"])
    }
    try await checkCapacity(for: [node], at: path)
    let report = try await report(of: node, at: path)
    let state = report.state?.caseText ?? "?"
    guard let actualDelay = report.timer else {
      throw Failure(
        path: path + ["timer"],
        description: "node '\(node)' has no timer that can fire in state '\(state)'")
    }
    guard delay == nil || delay == actualDelay else {
      throw Failure(
        path: path + ["timer"],
        description: "the timer of node '\(node)' in state '\(state)' fires after \(actualDelay), "
          + "expected \(delay ?? "")")
    }
    return try await request(node, .fireTimer, at: path)
  }

  /// Kills the process of a node, and waits until the orchestrator has restarted the node.
  private mutating func crash(_ node: String, at path: [String]) async throws {
    guard loaded.topology.node(node) != nil else {
      throw scenarioModel.unknownNode(node, at: path + ["crash"])
    }
    do {
      guard let former = try await client.directory(fresh: true)[node: node], former.isRunning
      else {
        throw Failure(
          path: path + ["crash"], description: "node '\(node)' has no process that can be killed")
      }
      try await client.kill(node)
      let deadline = ContinuousClock.now + answerTimeout
      while true {
        let current = try await client.directory(fresh: true)[node: node]
        if let current, current.isRunning, current.incarnation > former.incarnation { return }
        guard ContinuousClock.now < deadline else { throw noAnswer(node, at: path) }
        try await Task.sleep(for: .milliseconds(5))
      }
    } catch let error as TopologyClientError {
      throw Failure(
        path: path + ["crash"],
        description: "node '\(node)' was killed, but not restarted: \(error)")
    }
  }

  // MARK: Requests

  /// Requests a step from a node.
  private mutating func request(
    _ node: String, _ request: GateRequest, at path: [String]
  ) async throws -> Result {
    let report: GateReport
    do { report = try await exchange(node, request, at: path) } catch let ended as EndedProcess {
      endedNodes.insert(node)
      return .ended(node: node, reason: ended.reason)
    }
    lastReports[node] = report
    switch report.outcome {
    case .accepted, .fired: return .accepted
    case .refused(let reason):
      if case .takePipe(let pipe, _) = request, endsIfRefused(fromPipe: pipe) {
        endedNodes.insert(node)
      }
      return .refused([(node, reason)])
    case .refusedByParticipants(let reasons):
      return .refused(reasons.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    case .impossible(let problem):
      throw Failure(path: path, description: "node '\(node)' cannot take the step: \(problem)")
    case nil: throw Failure(path: path, description: "node '\(node)' reported no outcome")
    }
  }

  /// Returns the report of a node; for a node whose process has ended, its last report.
  private mutating func report(
    of node: String, _ request: GateRequest = .look(version: 0), at path: [String]
  ) async throws -> GateReport {
    if endedNodes.contains(node) { return lastReports[node] ?? GateReport() }
    do {
      let report = try await exchange(node, request, at: path)
      lastReports[node] = report
      return report
    } catch let ended as EndedProcess {
      throw Failure(
        path: path, description: "the process of node '\(node)' ended: \(ended.reason)")
    }
  }

  /// The error that the process of a node has ended.
  private struct EndedProcess: Error { let reason: String }

  private func exchange(
    _ node: String, _ request: GateRequest, at path: [String]
  ) async throws -> GateReport {
    do {
      return try await client.gate(node, request, timeout: answerTimeout)
    } catch TopologyClientError.unknownOutcome(_, after: nil) {
      throw EndedProcess(reason: "the process ended during the step")
    } catch TopologyClientError.nodeDown(_, let reason) {
      throw EndedProcess(reason: reason)
    } catch TopologyClientError.unknownOutcome {
      throw noAnswer(node, at: path)
    } catch let error as TopologyClientError {
      throw Failure(path: path, description: "node '\(node)' cannot take the step: \(error)")
    }
  }

  private func noAnswer(_ node: String, at path: [String]) -> Failure {
    Failure(
      path: path,
      description: "node '\(node)' did not take the step within \(answerTimeout.shortText)")
  }

  private mutating func checkIsRunning(
    _ effect: String, of node: String, at path: [String]
  ) async throws {
    guard model.node(named: node) != nil else {
      throw scenarioModel.unknownNode(node, at: path + ["at"])
    }
    let report = try await report(of: node, at: path)
    guard !report.effects.contains(effect) else { return }
    throw Failure(
      path: path,
      description: "effect '\(effect)' of node '\(node)' is not running in state "
        + "'\(report.state?.caseText ?? "?")'"
        + Suggestion.among(report.effects, like: effect, verb: "running effects are"))
  }

  // MARK: Pipes

  private func pipe(_ name: String, at path: [String]) throws -> PipeSpecification {
    guard let pipe = loaded.pipes.first(where: { $0.name == name }) else {
      throw scenarioModel.unknownPipe(name, at: path)
    }
    return pipe
  }

  /// Returns the events in a pipe, the next event first.
  private mutating func contents(
    of pipe: PipeSpecification, at path: [String]
  ) async throws -> [GateReport.Event] {
    // Reads the sender first: no event is missing if events arrive in between.
    let sender = try await report(of: pipe.sender, at: path)
    let receiver = try await report(of: pipe.receiver, at: path)
    let sent = sender.outs.first { $0.pipe == pipe.name }
    let received = receiver.ins.first { $0.pipe == pipe.name }
    let isSameStream = received?.stream == sent?.stream
    return (received?.events ?? [])
      + (sent?.events ?? []).filter { !isSameStream || $0.number > received?.last ?? 0 }
  }

  private mutating func checkCapacity(for nodes: [String], at path: [String]) async throws {
    let composites = model.composites.filter { $0.moves(with: nodes, in: model) }.map(\.name)
    for sender in nodes + composites {
      for pipe in loaded.pipes where pipe.sender == sender {
        guard try await contents(of: pipe, at: path).count >= pipe.capacity else { continue }
        throw Failure(
          path: path,
          description: "'\(sender)' accepts no events: its outbound pipe '\(pipe.name)' is full "
            + "with \(pipe.capacity) events")
      }
    }
  }

  /// Returns the number of an event in a pipe.
  private mutating func number(
    of event: JSONValue, in pipe: PipeSpecification, at path: [String]
  ) async throws -> UInt64 {
    let contents = try await contents(of: pipe, at: path)
    let expectation = ScenarioReplay.canonicalForm(event)
    guard
      let index = contents.firstIndex(where: {
        ScenarioReplay.canonicalForm($0.event) == expectation
      })
    else {
      throw Failure(
        path: path + ["from"],
        description: "pipe '\(pipe.name)' contains "
          + "\(ScenarioReplay.text(contents.map(\.event))), expected '\(event.caseText)'")
    }
    if pipe.onRefused != .postpone, let first = contents.first, index > 0 {
      throw Failure(
        path: path + ["from"],
        description: "event '\(first.event.caseText)' is before event '\(event.caseText)' in pipe "
          + "'\(pipe.name)', and must be accepted first")
    }
    return contents[index].number
  }

  // MARK: Comparing

  private mutating func compare(
    _ expectation: [String: JSONValue], at path: [String]
  ) async throws {
    for (name, state) in expectation.sorted(by: { $0.key < $1.key }) {
      let path = path + [name]
      guard let number = model.node(named: name) else {
        throw scenarioModel.unknownNode(name, at: path)
      }
      let node = model.nodes[number]
      let actual: JSONValue
      if case .constant = node.kind {
        actual = node.initialConfiguration?.state ?? .null
      } else {
        actual = try await report(of: name, at: path).state ?? .null
      }
      try scenarioModel.compare(actual, of: name, with: state, at: path)
    }
  }

  // MARK: Text

  private static func text(_ action: ScenarioStep.Action) -> String {
    switch action {
    case .takes(let owner, let event, .outside): "\(owner) takes \(event.caseText)"
    case .takes(let owner, let event, .pipe(let pipe)):
      "\(owner) takes \(event.caseText) from \(pipe)"
    case .takes(let owner, let event, .effect(_, let output)):
      "\(owner) takes \(event.caseText) from effect \(output)"
    case .sends(let node, let event, let pipe): "\(node) sends \(event.caseText) into \(pipe)"
    case .ends(let node, let effect): "effect \(effect) of \(node) ends"
    case .fires(let node, let delay): "timer\(delay.map { " " + $0 } ?? "") of \(node) fires"
    case .crash(let node): "\(node) is killed"
    }
  }

  private static func text(_ outcome: ScenarioStep.Outcome) -> String {
    switch outcome {
    case .states(let states):
      states.isEmpty
        ? "accepted"
        : states.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value.caseText)" }
          .joined(separator: ", ")
    case .refused(let node, let reason):
      "refused" + (node.map { " by \($0)" } ?? "") + (reason.map { ": \($0)" } ?? "")
    case .processEnds: "the process ends"
    }
  }
}
