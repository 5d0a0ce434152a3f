import PipeRuntime
import NumberMachines

/// The expected final states of a plan's nodes. The same machines compute them, without processes.
package struct Reference {
  package struct Node {
    package var state: JSONValue
    /// The number of events that become dead letters.
    var deadLetters = 0
    var sent: [NumberEvent] = []
  }

  package private(set) var nodes: [String: Node] = [:]

  /// - Parameter inputs: The requests that each source has applied.
  package init(_ plan: SoakPlan, inputs: [String: [NumberEvent]]) throws {
    for node in plan.nodes {
      let events =
        (inputs[node.name] ?? []) + plan.senders(to: node.name).flatMap { nodes[$0]?.sent ?? [] }
      nodes[node.name] = try Self.run(node.kind.machine, node.parameters, events)
    }
  }

  /// Runs a machine on a sequence of events. The effects of each step end before the next event.
  private static func run<Run: NumberMachine>(
    _: Run.Type, _ parameters: NumberParameters, _ events: [NumberEvent]
  ) throws -> Node {
    let machine = Run.stateMachine(parameters)
    var state = machine.initial
    var node = Node(state: .null)
    func take(_ event: NumberEvent) -> Bool {
      guard case .next(let next) = machine.reduce(state, event) else { return false }
      state = next
      if let sent = Run.sent(on: state, parameters) { node.sent.append(sent) }
      return true
    }
    for event in events {
      if !take(event) { node.deadLetters += 1 }
      while let output = machine.output(state), take(Run.answer(to: output)) {}
    }
    node.state = try JSONValue(parsing: EventCodec<Run.State>().encode(state))
    return node
  }
}
