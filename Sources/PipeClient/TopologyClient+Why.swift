import PipeMachines
import PipeWire

// Which events are enabled, and who withholds the others. Nodes are asked, and do not change by that.
extension TopologyClient {
  /// Which events a node, or a composite, takes now, and who withholds the others.
  /// - Parameter timeout: How long each node has to answer; one that does not withholds its events.
  /// - Throws: ``TopologyClientError``.
  public func enabledEvents(
    of name: String, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(name, nil, timeout: timeout)
  }

  /// Whether a node, or a composite, takes an event now, and if not, who withholds it and why.
  /// - Returns: The event alone; more than once where several composites, or several nodes of the
  ///   composite, take it.
  /// - Throws: ``TopologyClientError``; `invalidEvent` where nobody takes it in any state.
  public func why(
    _ name: String, _ event: some MachineEvent, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(
      name, JSONValue(parsing: EventCodec().encode(event)), timeout: timeout)
  }

  /// Asks so of an event given as JSON: `{"label": {"field": value}}`, or a bare label, which stands
  /// for every value of its case.
  public func why(
    _ name: String, json event: JSONValue, timeout: Duration = .seconds(2)
  ) async throws -> EnabledEvents {
    try await explain(name, event, timeout: timeout)
  }

  private func explain(
    _ name: String, _ event: JSONValue?, timeout: Duration
  ) async throws -> EnabledEvents {
    let directory = try await directory()
    let target = try node(name, in: directory)
    let hasComposites = directory.nodes.contains { $0.kind == .composite }
    let classes = hasComposites ? try await conflictClasses() : []
    var questions: [EnablednessQuestion] = []
    switch target.kind {
    case .monitor:
      throw TopologyClientError.invalidEvent(name, "it is a monitor and takes no events")
    case .constant:
      if event != nil {
        throw TopologyClientError.invalidEvent(name, "it is constant and takes no events")
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
    // A bare label is asked of each participant as it stands; a value as each of them reads it.
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

  // MARK: Asking

  /// Asks all of them at once.
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
    of name: String, _ event: [UInt8], in directory: TopologyDirectory, _ timeout: Duration
  ) async -> NodeAnswer<Explanation> {
    guard let node = directory[node: name] else { return .failure(.down("it is not there")) }
    guard node.isRunning else {
      return .failure(.down(node.reason.map { "\(node.phase): \($0)" } ?? node.phase))
    }
    do {
      let answer: ClientRequest.Answer = try await call { sockets, resume in
        sockets.request(node, .explain(event), timeout: timeout, resume)
      }
      guard case .explained(let json) = answer, let explanation = try? json.decode(Explanation.self)
      else { return .failure(.unreadable("it answered in a form that this client cannot read")) }
      return .success(explanation)
    } catch TopologyClientError.unknownOutcome(_, after: .none) {
      return .failure(.down("it has just gone"))
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
