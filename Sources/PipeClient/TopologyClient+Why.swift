import PipeMachines
import PipeWire

// Questions about enabled events, and about the nodes that block other events. The questions have
// no effect on the nodes.
extension TopologyClient {
  /// Returns which events a node or a composite accepts now, and which nodes block the other
  /// events.
  /// - Parameter timeout: The maximum wait for each node's answer. A node that does not answer in
  ///   time counts as blocking its events.
  /// - Throws: ``TopologyClientError``.
  public func enabledEvents(
    of name: String, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(name, nil, timeout: timeout)
  }

  /// Returns whether a node or a composite accepts an event now. If not, also returns which nodes
  /// block the event, and why.
  /// - Returns: Only this event, possibly several times: once for each composite that synchronizes
  ///   the event, and once for each component that accepts the event on its own.
  /// - Throws: ``TopologyClientError``; `invalidEvent` if no node accepts the event in any state.
  public func why(
    _ name: String, _ event: some MachineEvent, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(
      name, JSONValue(parsing: EventCodec().encode(event)), timeout: timeout)
  }

  /// Returns whether a node or a composite accepts an event that is given as JSON: `{"label":
  /// {"field": value}}`, or only the label, which represents all values of its case.
  public func why(
    _ name: String, json event: JSONValue, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(name, event, timeout: timeout)
  }

  private func explain(
    _ name: String, _ event: JSONValue?, timeout: Duration
  ) async throws -> EnabledEvents {
    let directory = try await directory()
    let instance = try instance(name, in: directory)
    let target = try instance?.node ?? node(name, in: directory)
    let event = event.map { given in
      // A label without values represents all values of its case.
      guard let (instance, node) = instance, given.string == nil else { return given }
      return instance.event(given, keyedBy: node.instanceField ?? "")
    }
    let hasComposites = directory.nodes.contains { $0.kind == .composite }
    let classes = hasComposites ? try await conflictClasses() : []
    var questions: [EnablednessQuestion] = []
    switch target.kind {
    case .monitor:
      throw TopologyClientError.invalidEvent(name, TopologyClientError.monitorProblem)
    case .constant:
      if event != nil {
        throw TopologyClientError.invalidEvent(name, TopologyClientError.constantProblem)
      }
    case .machine:
      questions = Self.questions(about: target.name, try await describe(target.name), classes)
      if let event {
        questions = try await Self.choose(
          event, of: target.name, describe(target.name), questions)
      }
    case .composite:
      guard let group = classes.first(where: { $0[target.name] != nil }),
        let plan = group[target.name]
      else {
        throw Self.unknownComposite(target.name)
      }
      var machines: [String: MachineDescription] = [:]
      for node in plan.nodes { machines[node] = try await describe(node) }
      questions = Self.questions(about: plan, in: group, machines)
      if let event { questions = try Self.choose(event, of: plan, questions) }
    }
    let key = instance?.name.key
    if let key { questions = questions.map { $0.ofInstances(withKey: key) } }
    var asked = Set(questions.flatMap(\.participants))
    // The node is asked even if it accepts no events, because its answer also describes its timer.
    if target.kind == .machine { asked.insert(target.name) }
    let coordinators = Set(questions.compactMap(\.coordinator))
    // Each participant receives the given JSON unchanged: either a label, or a value that the
    // participant decodes.
    let body = event?.bytes ?? []
    async let nodeAnswers: [String: NodeAnswer<NodeExplanation>] = answers(
      of: asked, body, key: key, in: directory, timeout)
    async let coordinatorAnswers: [String: NodeAnswer<CoordinatorExplanation>] = answers(
      of: coordinators, [], in: directory, timeout)
    let (nodes, links) = await (nodeAnswers, coordinatorAnswers)
    var (state, version) = (target.status?.state, target.status?.version)
    // The status of a node does not contain the state of an instance.
    if key != nil { (state, version) = (nil, nil) }
    var timer: RunningTimer?
    if case .success(let own) = nodes[target.name] {
      (state, version, timer) = (own.state, own.version, own.timer)
    }
    return EnabledEvents(
      name: instance?.name.description ?? name, kind: target.kind, state: state,
      version: state == nil ? nil : version,
      events: questions.map { $0.answer(nodes: nodes, coordinators: links) }, timer: timer,
      stateFields: directory.stateFields)
  }

  // MARK: Sending the questions to nodes

  /// Asks all nodes at the same time.
  /// - Parameter key: The key of the instances to ask about; `nil` for nodes without instances.
  private func answers<Explanation: Decodable & Sendable>(
    of names: Set<String>, _ event: [UInt8], key: String? = nil, in directory: TopologyDirectory,
    _ timeout: Duration
  ) async -> [String: NodeAnswer<Explanation>] {
    await withTaskGroup(of: (String, NodeAnswer<Explanation>).self) { group in
      for name in names {
        group.addTask {
          let node = InstanceName.node(of: name)
          return (name, await self.answer(of: node, event, key: key, in: directory, timeout))
        }
      }
      var answers: [String: NodeAnswer<Explanation>] = [:]
      for await (name, answer) in group { answers[name] = answer }
      return answers
    }
  }

  private func answer<Explanation: Decodable & Sendable>(
    of name: String, _ event: [UInt8], key: String? = nil, in directory: TopologyDirectory,
    _ timeout: Duration
  ) async -> NodeAnswer<Explanation> {
    guard let node = directory[node: name] else { return .failure(.down("no such node")) }
    guard node.isRunning else {
      return .failure(.down(node.reason.map { "\(node.phase): \($0)" } ?? node.phase))
    }
    do {
      let answer: ClientRequest.Answer = try await call { sockets, resume in
        sockets.request(node, .explain(event, key: key), timeout: timeout, resume)
      }
      guard case .explained(let json) = answer, let explanation = try? json.decode(Explanation.self)
      else { return .failure(.unreadable("the node sent an answer that this client cannot read")) }
      return .success(explanation)
    } catch TopologyClientError.unknownOutcome(_, after: .none) {
      return .failure(.down("the node has just ended"))
    } catch TopologyClientError.unknownOutcome(_, after: let time?) {
      return .failure(.silent(time))
    } catch TopologyClientError.nodeDown(_, let reason) {
      return .failure(.down(reason))
    } catch TopologyClientError.invalidEvent(_, let problem) {
      return .failure(.unreadable(problem))
    } catch {
      return .failure(.down("\(error)"))
    }
  }
}

// Functions that determine which nodes to ask about each event.
extension TopologyClient {
  /// Returns the questions about a node: for each event of its alphabet one question, or several
  /// questions if several composites synchronize the event.
  static func questions(
    about node: String, _ machine: MachineDescription, _ classes: [ConflictClassPlan]
  ) -> [EnablednessQuestion] {
    let events = machine.events.filter { machine.alphabet.contains($0.name) }
    return events.flatMap { event in
      let shared = classes.flatMap { group in
        group.vectors(of: event.name, with: node).map { vector in
          EnablednessQuestion(
            group.event(of: vector) ?? event, vector, coordinator: group.name)
        }
      }
      return shared.isEmpty ? [EnablednessQuestion(event, of: node)] : shared
    }
  }

  /// Returns the questions about a composite: first a question for each event that the composite
  /// synchronizes, then a question for each event that a component accepts on its own.
  static func questions(
    about plan: CompositePlan, in group: ConflictClassPlan,
    _ machines: [String: MachineDescription]
  ) -> [EnablednessQuestion] {
    let together = zip(plan.events, plan.vectors).map { event, vector in
      EnablednessQuestion(event, vector, coordinator: group.name)
    }
    let alone = plan.nodes.flatMap { node in
      let machine = machines[node]
      let events = machine?.events.filter { machine?.alphabet.contains($0.name) == true } ?? []
      return events.filter { group.vectors(of: $0.name, with: node).isEmpty }
        .map { EnablednessQuestion($0, of: node) }
    }
    return together + alone
  }

  // MARK: Questions about one event

  /// Returns the questions about one event of a node.
  static func choose(
    _ event: JSONValue, of node: String, _ machine: MachineDescription,
    _ questions: [EnablednessQuestion]
  ) throws(TopologyClientError) -> [EnablednessQuestion] {
    let chosen = questions.filter { $0.event.name == event.caseName }
    guard chosen.isEmpty else { return try check(event, of: node, chosen) }
    // The event is not in the alphabet: the machine has no such event, or accepts it in no state.
    let label = event.caseName.map { JSONValue.string($0) } ?? event
    let owner = "machine '\(machine.machine)'"
    let bare = machine.events.map { CaseDescription(name: $0.name) }
    let problem = bare.problem(with: label, noun: "event", owner: owner)
    throw .invalidEvent(
      node, problem ?? "\(owner) accepts event '\(event.caseName ?? "")' in no state")
  }

  /// Returns the questions about one event of a composite.
  static func choose(
    _ event: JSONValue, of plan: CompositePlan, _ questions: [EnablednessQuestion]
  ) throws(TopologyClientError) -> [EnablednessQuestion] {
    guard let name = event.caseName, event.caseMembers != nil else {
      throw .invalidEvent(plan.name, "\(SynchronizedEventError.noCase(event))")
    }
    let chosen = questions.filter { $0.event.name == name }
    guard !chosen.isEmpty else { throw .invalidEvent(plan.name, plan.refusal(of: name)) }
    return try check(event, of: plan.name, chosen)
  }

  /// Returns the questions unchanged. Throws an error if the event's values do not match the fields
  /// of its case.
  private static func check(
    _ event: JSONValue, of name: String, _ questions: [EnablednessQuestion]
  ) throws(TopologyClientError) -> [EnablednessQuestion] {
    // A label without values represents all values of its case.
    if event.string != nil { return questions }
    for question in questions {
      if let problem = [question.event].problem(with: event, noun: "event", owner: "it") {
        throw .invalidEvent(name, problem)
      }
    }
    return questions
  }
}

extension ConflictClassPlan {
  /// Returns the synchronization vectors of an event in which a node participates. Each vector is
  /// returned once.
  fileprivate func vectors(of event: String, with node: String) -> [SyncVector] {
    Set(composites.flatMap(\.vectors))
      .filter { $0.event == event && $0.participants.contains(node) }
      .sorted { $0.composite < $1.composite }
  }

  /// Returns the description of a vector's event.
  fileprivate func event(of vector: SyncVector) -> CaseDescription? {
    for composite in composites {
      if let index = composite.vectors.firstIndex(of: vector) { return composite.events[index] }
    }
    return nil
  }
}

/// A question whether an event is enabled, with the nodes to ask.
package struct EnablednessQuestion: Hashable, Sendable {
  package var event: CaseDescription
  /// The composite that synchronizes the event; `nil` if a single node accepts the event on its
  /// own.
  package var composite: String?
  /// The coordinator of the composite that synchronizes the event; `nil` if a single node accepts
  /// the event on its own.
  package var coordinator: String?
  package var participants: [String]

  /// Creates a question about an event that one node accepts on its own.
  package init(_ event: CaseDescription, of node: String) {
    self.event = event
    participants = [node]
  }

  /// Creates a question about an event that several nodes accept together.
  package init(_ event: CaseDescription, _ vector: SyncVector, coordinator: String) {
    self.event = event
    composite = vector.composite
    self.coordinator = coordinator
    participants = vector.participants
  }

  /// Returns the question with each participant replaced by its instance with this key. If a single
  /// node accepts the event on its own, returns the question unchanged, because the answer shows
  /// the node's name.
  func ofInstances(withKey key: String) -> Self {
    guard composite != nil else { return self }
    var question = self
    question.participants = participants.map { InstanceName(node: $0, key: key).description }
    return question
  }
}

/// A node's explanation, or the reason why the node blocks the event.
package typealias NodeAnswer<Explanation> = Result<Explanation, EventBlocker>

extension EnablednessQuestion {
  /// Returns the answer to the question, combined from the answers of the nodes and the
  /// coordinators.
  package func answer(
    nodes: [String: NodeAnswer<NodeExplanation>],
    coordinators: [String: NodeAnswer<CoordinatorExplanation>]
  ) -> EventEnabledness {
    var answers: [EventEnabledness.Answer] = []
    var links: CoordinatorExplanation?
    if let coordinator {
      switch coordinators[coordinator] {
      case .success(let explanation): links = explanation
      case .failure(let blocker):
        answers.append(EventEnabledness.Answer(participant: coordinator, blocker: blocker))
      case nil: break
      }
    }
    for participant in participants {
      switch nodes[participant] {
      case .success(let explanation):
        answers.append(answer(of: participant, explanation, links))
      case .failure(let blocker):
        answers.append(EventEnabledness.Answer(participant: participant, blocker: blocker))
      case nil: break
      }
    }
    return EventEnabledness(
      event: event, composite: composite, participants: participants, answers: answers)
  }

  private func answer(
    of participant: String, _ explanation: NodeExplanation, _ links: CoordinatorExplanation?
  ) -> EventEnabledness.Answer {
    let evaluation = explanation.events[event.name] ?? .refused(.noTransition)
    let blocker =
      Self.holdBlocker(explanation.hold) ?? refusal(evaluation) ?? Self.fullPipeBlocker(
        explanation.hold)
      ?? links.flatMap { Self.blocker(to: participant, $0) }
    let verdict = blocker == nil ? Self.verdict(evaluation) : .blocked
    return EventEnabledness.Answer(
      participant: participant, state: explanation.state, version: explanation.version,
      verdict: verdict, blocker: blocker)
  }

  /// Returns the verdict for an evaluation, provided that nothing blocks the event.
  private static func verdict(_ evaluation: Evaluation) -> EventEnabledness.Verdict {
    switch evaluation {
    case .accepted: .enabled
    case .ignored: .ignored
    case .dependsOnValues: .dependsOnValue
    case .asynchronous, .selfContained, .refused: .undetermined
    }
  }

  /// Returns the reason why the node cannot take a step now; `nil` if the node can take a step, or
  /// only a full pipe blocks the node. A returned reason takes precedence over the event's
  /// evaluation in the current state, because the node may change its state before its next step.
  private static func holdBlocker(_ hold: NodeExplanation.Hold?) -> EventBlocker? {
    switch hold {
    case .transaction(let prepared): .inTransaction(prepared.transaction)
    case .doubt(let doubt): .inDoubt(doubt)
    case .transition: .inTransition
    case .pipes, nil: nil
    }
  }

  private static func fullPipeBlocker(_ hold: NodeExplanation.Hold?) -> EventBlocker? {
    if case .pipes(let names) = hold { .pipesFull(names) } else { nil }
  }

  private func refusal(_ evaluation: Evaluation) -> EventBlocker? {
    switch evaluation {
    case .refused(.asynchronous), .asynchronous: composite == nil ? nil : .refused(.asynchronous)
    case .refused(let refusal): .refused(refusal)
    case .accepted, .ignored, .dependsOnValues, .selfContained: nil
    }
  }

  /// Returns the reason why the coordinator cannot ask the participant now; `nil` if the
  /// coordinator can ask.
  private static func blocker(
    to participant: String, _ links: CoordinatorExplanation
  ) -> EventBlocker? {
    if let busy = links.transactions.first(where: { $0.participants.contains(participant) }) {
      return .inTransaction(busy.transaction)
    }
    return links.connected.contains(InstanceName.node(of: participant)) ? nil : .notConnected
  }
}
