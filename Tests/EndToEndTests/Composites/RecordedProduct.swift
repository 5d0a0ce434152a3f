import Nodes
import PipeRuntime

/// The product of a topology's machines, in the form in which a composite's feed shows it.
struct RecordedProduct {
  /// A step, identified by the texts of its two states.
  struct Step: Hashable {
    var from: String
    var to: String
  }

  let exploration: Exploration
  /// The nodes, in the order of the product's states.
  private let nodes: [String]

  /// - Parameter payloads: The events with a payload to explore with, by node.
  init(of topology: Topology, payloads: [String: [any MachineEvent]] = [:]) throws {
    let product = try Product(
      topology.nodes.map { node in
        let machine = ExampleProgram.machines.first { $0.name == node.machine }!
        return Self.component(machine, name: node.name, payloads: payloads[node.name] ?? [])
      }, composites: topology.composites.map(\.declaration))
    exploration = try product.explore()
    nodes = topology.nodes.map(\.name)
  }

  private static func component<Example: Machine>(
    _ machine: Example.Type, name: String, payloads: [any MachineEvent]
  ) -> AnyComponent {
    let machine = machine.stateMachine(Example.Parameters())
    let bare = Component(name, machine: machine)
    return AnyComponent(
      Component(
        name, machine: machine, events: bare.events + payloads.compactMap { $0 as? Example.Event }))
  }

  /// Returns the reachable states as a composite of these nodes shows them.
  func states(of composite: [String]) -> Set<String> {
    Set(exploration.states.map { text(of: $0, composite) })
  }

  /// Returns the steps of one composite's nodes. The composite does not show steps of other nodes.
  func steps(of composite: [String]) -> Set<Step> {
    Set(
      exploration.transitions.compactMap { step in
        let shown = Step(
          from: text(of: exploration.states[step.sourceIndex], composite),
          to: text(of: exploration.states[step.targetIndex], composite))
        return shown.from == shown.to && step.sourceIndex != step.targetIndex ? nil : shown
      })
  }

  private func text(of state: ProductState, _ composite: [String]) -> String {
    let states = zip(nodes, state.components).filter { composite.contains($0.0) }
    return Self.text(
      .object(Dictionary(states.map { ($0.0, $0.1.json) }, uniquingKeysWith: { first, _ in first }))
    )
  }

  /// Returns a composite's state as text that does not depend on how cases without values are
  /// written.
  static func text(_ state: JSONValue) -> String {
    guard case .object(let members) = state else { return state.text }
    return JSONValue.object(
      members.mapValues { member in member.string.map { .object([$0: [:]]) } ?? member }
    ).text
  }
}

/// The states that a monitor has recorded of one composite.
struct RecordedStates {
  private(set) var changes: [StateChange] = []

  mutating func append(_ change: StateChange) { changes.append(change) }

  var states: [String] { changes.map { RecordedProduct.text($0.state) } }

  /// Each state with the state before it, except where a change between them was missed.
  var steps: [RecordedProduct.Step] {
    zip(changes, changes.dropFirst()).filter { _, next in next.missedCount == 0 }.map {
      last, next in
      RecordedProduct.Step(
        from: RecordedProduct.text(last.state), to: RecordedProduct.text(next.state))
    }
  }
}
