import PipeMachines
import PipeWire

// Enabled events, and the nodes that block the others. A question does not change a node.
extension TopologyClient {
  /// Returns which events a node, or a composite, takes now, and which nodes block the others.
  /// - Parameter timeout: How long each node has to answer. A node that does not answer blocks its events.
  /// - Throws: ``TopologyClientError``.
  public func enabledEvents(
    of name: String, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(name, nil, timeout: timeout)
  }

  /// Returns whether a node, or a composite, takes an event now, and if not, which nodes block it and why.
  /// - Returns: The event alone; more than once if several composites, or several nodes of the
  ///   composite, take it.
  /// - Throws: ``TopologyClientError``; `invalidEvent` if no node takes the event in any state.
  public func why(
    _ name: String, _ event: some MachineEvent, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(
      name, JSONValue(parsing: EventCodec().encode(event)), timeout: timeout)
  }

  /// Returns the same for an event given as JSON: `{"label": {"field": value}}`, or a bare label,
  /// which represents every value of its case.
  public func why(
    _ name: String, json event: JSONValue, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(name, event, timeout: timeout)
  }

  private func explain(
    _ name: String, _ event: JSONValue?, timeout: Duration
  ) async throws -> EnabledEvents {
    let directory = try await directory()
    if let (instance, node) = try instance(name, in: directory) {
      return try await explain(instance, of: node, event, in: directory, timeout)
    }
    let target = try node(name, in: directory)
    let hasComposites = directory.nodes.contains { $0.kind == .composite }
    let classes = hasComposites ? try await conflictClasses() : []
    var questions: [EnablednessQuestion] = []
    switch target.kind {
    case .monitor:
      throw TopologyClientError.invalidEvent(name, "a monitor accepts no events")
    case .constant:
      if event != nil {
        throw TopologyClientError.invalidEvent(name, "a constant node accepts no events")
      }
    case .machine:
      questions = Self.questions(about: name, try await describe(name), classes)
      if let event {
        questions = try await Self.choose(event, of: name, describe(name), questions)
      }
    case .composite:
      guard let group = classes.first(where: { $0[name] != nil }), let plan = group[name] else {
        throw Self.unknownComposite(name)
      }
      var machines: [String: MachineDescription] = [:]
      for node in plan.nodes { machines[node] = try await describe(node) }
      questions = Self.questions(about: plan, in: group, machines)
      if let event { questions = try Self.choose(event, of: plan, questions) }
    }
    let asked = Set(questions.flatMap(\.participants))
    let coordinators = Set(questions.compactMap(\.coordinator))
    // Each participant receives the event unchanged: a bare label, or a value that it decodes itself.
    let body = event?.bytes ?? []
    async let nodeAnswers: [String: NodeAnswer<NodeExplanation>] = answers(
      of: asked, body, in: directory, timeout)
    async let coordinatorAnswers: [String: NodeAnswer<CoordinatorExplanation>] = answers(
      of: coordinators, [], in: directory, timeout)
    let (nodes, links) = await (nodeAnswers, coordinatorAnswers)
    var state = target.status?.state
    var version = target.status?.version
    if case .success(let own) = nodes[name] { (state, version) = (own.state, own.version) }
    return EnabledEvents(
      name: name, kind: target.kind, state: state, version: state == nil ? nil : version,
      events: questions.map { $0.answer(nodes: nodes, coordinators: links) },
      stateFields: directory.stateFields)
  }

  /// Explains the events of an instance, which takes part in no composite.
  private func explain(
    _ instance: InstanceName, of node: NodeInformation, _ event: JSONValue?,
    in directory: TopologyDirectory, _ timeout: Duration
  ) async throws -> EnabledEvents {
    let machine = try await describe(node.name)
    let event = event.map { given in
      // A bare label means every value of its case.
      given.string != nil
        ? given : instance.event(given, keyedBy: node.instanceField ?? "")
    }
    var questions = Self.questions(about: node.name, machine, [])
    if let event { questions = try Self.choose(event, of: node.name, machine, questions) }
    let answer: NodeAnswer<NodeExplanation> = await answer(
      of: node.name, event?.bytes ?? [], key: instance.key, in: directory, timeout)
    var known: NodeExplanation?
    if case .success(let explanation) = answer { known = explanation }
    return EnabledEvents(
      name: instance.description, kind: .machine, state: known?.state, version: known?.version,
      events: questions.map { $0.answer(nodes: [node.name: answer], coordinators: [:]) },
      stateFields: directory.stateFields)
  }

  // MARK: Asking

  /// Asks all nodes at once.
  private func answers<Explanation: Decodable & Sendable>(
    of names: Set<String>, _ event: [UInt8], in directory: TopologyDirectory, _ timeout: Duration
  ) async -> [String: NodeAnswer<Explanation>] {
    await withTaskGroup(of: (String, NodeAnswer<Explanation>).self) { group in
      for name in names {
        group.addTask { (name, await self.answer(of: name, event, in: directory, timeout)) }
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

// The nodes to ask about each event.
extension TopologyClient {
  /// Returns the questions about a node: each event of its alphabet.
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

  /// Returns the questions about a composite: the events that it synchronizes, and the events that
  /// its nodes take on their own.
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

  // MARK: One event

  /// Returns the questions about an event of a node.
  static func choose(
    _ event: JSONValue, of node: String, _ machine: MachineDescription,
    _ questions: [EnablednessQuestion]
  ) throws(TopologyClientError) -> [EnablednessQuestion] {
    let chosen = questions.filter { $0.event.name == event.caseName }
    guard chosen.isEmpty else { return try check(event, of: node, chosen) }
    // The event is not in the alphabet, or the machine has no such event.
    let label = event.caseName.map { JSONValue.string($0) } ?? event
    let owner = "machine '\(machine.machine)'"
    let bare = machine.events.map { CaseDescription(name: $0.name) }
    let problem = bare.problem(with: label, noun: "event", owner: owner)
    throw .invalidEvent(
      node, problem ?? "\(owner) accepts event '\(event.caseName ?? "")' in no state")
  }

  /// Returns the questions about an event of a composite.
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

  /// Throws if the event's values do not match its case.
  private static func check(
    _ event: JSONValue, of name: String, _ questions: [EnablednessQuestion]
  ) throws(TopologyClientError) -> [EnablednessQuestion] {
    // A bare label represents every value.
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
  /// Returns the vectors by which a node takes an event, without duplicates.
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

/// An event, and the nodes to ask whether it is enabled.
package struct EnablednessQuestion: Hashable, Sendable {
  package var event: CaseDescription
  /// The composite through which the participants take the event; `nil` if one node takes it alone.
  package var composite: String?
  /// The coordinator of that composite.
  package var coordinator: String?
  package var participants: [String]

  /// Creates a question about an event that a node takes on its own.
  package init(_ event: CaseDescription, of node: String) {
    self.event = event
    participants = [node]
  }

  /// Creates a question about an event that several nodes take together.
  package init(_ event: CaseDescription, _ vector: SyncVector, coordinator: String) {
    self.event = event
    composite = vector.composite
    self.coordinator = coordinator
    participants = vector.participants
  }
}

/// A node's explanation, or the reason why it blocks the event.
package typealias NodeAnswer<Explanation> = Result<Explanation, EventBlocker>

extension EnablednessQuestion {
  /// Returns the answer, composed from the answers of the nodes and the coordinators.
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
      Self.hold(explanation.hold) ?? refusal(evaluation) ?? Self.full(explanation.hold)
      ?? links.flatMap { Self.blocker(to: participant, $0) }
    let verdict = blocker == nil ? Self.verdict(evaluation) : .blocked
    return EventEnabledness.Answer(
      participant: participant, state: explanation.state, version: explanation.version,
      verdict: verdict, blocker: blocker)
  }

  /// Returns the verdict for an evaluation that is not a refusal.
  private static func verdict(_ evaluation: Evaluation) -> EventEnabledness.Verdict {
    switch evaluation {
    case .accepted: .enabled
    case .dependsOnValues: .dependsOnValue
    case .asynchronous, .selfContained, .refused: .undetermined
    }
  }

  /// Returns the reason for a hold after which the node may be in another state: its current state
  /// then does not matter.
  private static func hold(_ hold: NodeExplanation.Hold?) -> EventBlocker? {
    switch hold {
    case .transaction(let prepared): .inTransaction(prepared.transaction)
    case .doubt(let doubt): .inDoubt(doubt)
    case .transition: .inTransition
    case .pipes, nil: nil
    }
  }

  private static func full(_ hold: NodeExplanation.Hold?) -> EventBlocker? {
    if case .pipes(let names) = hold { .pipesFull(names) } else { nil }
  }

  private func refusal(_ evaluation: Evaluation) -> EventBlocker? {
    switch evaluation {
    case .refused(.asynchronous), .asynchronous: composite == nil ? nil : .refused(.asynchronous)
    case .refused(let refusal): .refused(refusal)
    case .accepted, .dependsOnValues, .selfContained: nil
    }
  }

  /// Returns why the coordinator could not ask the participant now; `nil` if it could.
  private static func blocker(
    to participant: String, _ links: CoordinatorExplanation
  ) -> EventBlocker? {
    if let busy = links.transactions.first(where: { $0.participants.contains(participant) }) {
      return .inTransaction(busy.transaction)
    }
    return links.connected.contains(participant) ? nil : .notConnected
  }
}
