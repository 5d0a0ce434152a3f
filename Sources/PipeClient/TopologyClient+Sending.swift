import PipeMachines
import PipeWire

// Events for whom they are sent to by name, be that a node or a composite.
extension TopologyClient {
  /// The events that can be sent to a node or a composite, with what they carry: of a composite those that it
  /// synchronizes, and then those that one of its nodes takes by itself.
  /// - Throws: ``TopologyClientError``: `failed` where a node has not described itself yet.
  package func alphabet(of name: String) async throws -> [CaseDescription] {
    guard try await node(name, in: directory(fresh: false)).kind == .composite else {
      let machine = try await describe(name)
      return machine.events.filter { machine.alphabet.contains($0.name) }
    }
    guard let plan = try await plan(of: name) else { throw Self.unknownComposite(name) }
    var events = plan.events
    for node in Set(plan.own.values).sorted() {
      events += try await describe(node).events.filter { plan.own[$0.name] == node }
    }
    return events
  }

  /// Sends an event to a node or a composite: what one node of a composite takes by itself goes to that one.
  package func deliver(
    _ event: JSONValue, to name: String, timeout: Duration? = nil
  ) async throws -> EventDelivery {
    let directory = try await directory(fresh: false)
    let target = try node(name, in: directory)
    let owner = target.kind == .composite ? try await owner(of: event, in: name) : nil
    let outcome: EventDelivery.Outcome =
      target.kind == .composite && owner == nil
      ? .composite(try await synchronize(name, json: event, timeout: timeout))
      : .node(try await send(owner ?? name, json: event, timeout: timeout))
    return EventDelivery(
      event: event, recipient: owner ?? name, outcome: outcome,
      stateFields: directory.stateFields)
  }

  /// The node of a composite that takes an event by itself; `nil` where the composite synchronizes it, or it is
  /// none that can be sent to the composite.
  package func owner(of event: JSONValue, in composite: String) async throws -> String? {
    guard let name = event.caseName else { return nil }
    return try await plan(of: composite)?.own[name]
  }

  /// The node of a composite that takes an event by itself.
  /// - Throws: ``TopologyClientError`` `invalidEvent` where the event is synchronized, or nobody's, or
  ///   several nodes'.
  package func taker(of event: String, in composite: String) async throws -> String {
    guard let plan = try await plan(of: composite) else { throw Self.unknownComposite(composite) }
    if let node = plan.own[event] { return node }
    throw TopologyClientError.invalidEvent(
      composite,
      plan.vector(of: event) == nil
        ? plan.refusal(of: event)
        : "it synchronizes '\(event)', which is asked for by 'synchronize'")
  }

  /// `nil` while the nodes have not told what it consists of.
  private func plan(of composite: String) async throws -> CompositePlan? {
    try await conflictClasses().lazy.compactMap { $0[composite] }.first
  }

  static func unknownComposite(_ name: String) -> TopologyClientError {
    .failed("nothing is known of composite '\(name)'; try again")
  }
}
