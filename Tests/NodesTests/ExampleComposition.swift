import Nodes
import PipeRuntime

/// The machines of the examples, composed as their topology files declare.
enum ExampleComposition {
  private static let root = #filePath.split(separator: "/", omittingEmptySubsequences: false)
    .dropLast(3).joined(separator: "/")

  /// Returns the product of a topology's nodes.
  /// - Parameter payloads: The events with payloads that the exploration uses, by node.
  static func product(
    of file: String, payloads: [String: [any MachineEvent]] = [:]
  ) throws -> Product {
    let topology = try TopologyReader.read(path: "\(root)/topologies/\(file)").topology
    return try Product(
      topology.nodes.map { node in
        let machine = ExampleProgram.machines.first { $0.name == node.machine }!
        return component(machine, name: node.name, payloads: payloads[node.name] ?? [])
      }, composites: topology.composites.map(\.declaration))
  }

  /// Returns a machine of the program as a component. The exploration uses all its events without a
  /// payload, and the given events.
  static func component<Example: Machine>(
    _ machine: Example.Type, name: String, payloads: [any MachineEvent] = []
  ) -> AnyComponent {
    let bare = Component(name, machine: machine.stateMachine(Example.Parameters()))
    return AnyComponent(
      Component(
        name, machine: machine.stateMachine(Example.Parameters()),
        events: bare.events + payloads.compactMap { $0 as? Example.Event }))
  }
}
