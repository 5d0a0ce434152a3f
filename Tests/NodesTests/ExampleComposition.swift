import Nodes
import PipeRuntime

/// The examples' own machines, composed as their topology files say.
enum ExampleComposition {
  private static let root = #filePath.split(separator: "/", omittingEmptySubsequences: false)
    .dropLast(3).joined(separator: "/")

  /// The product of a topology's nodes.
  /// - Parameter payloads: The events with a payload to explore with, by node.
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

  /// A machine of the program as a component, explored with all its events without a payload and
  /// with these.
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
