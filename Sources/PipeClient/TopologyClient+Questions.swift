import PipeMachines
import PipeWire

// Who is to be asked about which events.
extension TopologyClient {
  /// Of a node: each event of its alphabet.
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

  /// Of a composite: what it synchronizes, and what its nodes take each for itself.
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

  /// Those of the questions that are about an event of a node.
  static func choose(
    _ event: JSONValue, of node: String, _ machine: MachineDescription,
    _ questions: [EnablednessQuestion]
  ) throws(TopologyClientError) -> [EnablednessQuestion] {
    let chosen = questions.filter { $0.event.name == event.caseName }
    guard chosen.isEmpty else { return try check(event, of: node, chosen) }
    // Not in its alphabet, or none of its events at all.
    let label = event.caseName.map { JSONValue.string($0) } ?? event
    let owner = "machine '\(machine.machine)'"
    let bare = machine.events.map { CaseDescription(name: $0.name) }
    let problem = bare.problem(with: label, noun: "event", owner: owner)
    throw .invalidEvent(
      node, problem ?? "\(owner) takes event '\(event.caseName ?? "")' in no state")
  }

  /// Those of the questions that are about an event of a composite.
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

  /// Throws where the event's values are not those of its case.
  private static func check(
    _ event: JSONValue, of name: String, _ questions: [EnablednessQuestion]
  ) throws(TopologyClientError) -> [EnablednessQuestion] {
    // A bare label stands for every value.
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
  /// The vectors by which a node takes an event, each once.
  fileprivate func vectors(of event: String, with node: String) -> [SyncVector] {
    Set(composites.flatMap(\.vectors))
      .filter { $0.event == event && $0.participants.contains(node) }
      .sorted { $0.composite < $1.composite }
  }

  /// What the event of a vector carries.
  fileprivate func event(of vector: SyncVector) -> CaseDescription? {
    for composite in composites {
      if let place = composite.vectors.firstIndex(of: vector) { return composite.events[place] }
    }
    return nil
  }
}
