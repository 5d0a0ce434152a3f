import PipeMachines
import PipeSupport
import PipeWire

/// Checks a topology against the descriptions of its programs: their machines, ports, states and events.
///
/// It does not repeat the checks of ``TopologyReader``. It skips programs and machines without a
/// description; the caller that could not get a description reports why.
public struct TopologyChecker: DiagnosticCollector {
  /// The descriptions of a topology's programs and nodes.
  public struct Descriptions: Sendable {
    /// The programs, by the names that the topology uses.
    public var programs: [String: ProgramDescription]
    /// The machines, by node. A missing node is described by the machine of its program.
    public var nodes: [String: MachineDescription]

    /// Makes descriptions.
    public init(
      programs: [String: ProgramDescription], nodes: [String: MachineDescription] = [:]
    ) {
      self.programs = programs
      self.nodes = nodes
    }
  }

  let topology: Topology
  let source: SourceMap
  let descriptions: Descriptions
  var diagnostics: [Diagnostic] = []
  /// The composites; set once they are found to be valid.
  var composites: TopologyComposites?

  /// Checks a topology.
  /// - Returns: The errors and warnings in file order; empty if the topology fits.
  public static func check(
    _ topology: Topology, source: SourceMap, against descriptions: Descriptions
  ) -> [Diagnostic] {
    var checker = TopologyChecker(
      topology: topology, source: source, descriptions: descriptions)
    for node in topology.nodes {
      checker.check(node)
      checker.checkDependencies(of: node)
    }
    for monitor in topology.monitors { checker.check(monitor) }
    if !topology.composites.isEmpty { checker.checkComposites() }
    for (index, pipe) in topology.pipes.enumerated() {
      checker.check(pipe, at: ["pipes", String(index)])
    }
    checker.checkExplore()
    return checker.diagnostics.inFileOrder
  }

  /// Returns the description of a node's machine, or `nil` if it is unknown.
  func machine(of node: NodeSpecification) -> MachineDescription? {
    if let description = descriptions.nodes[node.name] { return description }
    guard let machine = node.machine, let program = topology.program(of: node) else { return nil }
    let description = descriptions.programs[program]?.machine(machine)
    return description?.error == nil ? description : nil
  }

  // MARK: Nodes and monitors

  private mutating func check(_ node: NodeSpecification) {
    let path = ["nodes", node.name]
    let owner = "node '\(node.name)'"
    if let machine = node.machine, let program = topology.program(of: node),
      let description = descriptions.programs[program], description.machine(machine) == nil
    {
      report(
        .unknownMachine, at: path + ["machine"],
        "\(owner): program '\(program)' has no machine '\(machine)'"
          + Suggestion.among(description.machines.map(\.machine), like: machine))
    }
    guard let machine = machine(of: node) else { return }
    if let constant = node.constant {
      // A struct is checked by its own decoder when the node starts.
      if machine.stateFields == nil {
        checkCase(
          constant, against: machine.states, kind: .state,
          holder: "machine '\(machine.machine)'", owner: owner, at: path + ["constant"])
      }
    } else {
      checkKey(of: node, machine, owner: owner, at: path + ["key"])
      if let outputs = machine.unmappedOutputs {
        report(
          .unmappedOutput, .warning, at: path,
          "\(owner): machine '\(machine.machine)' maps \(outputs.count == 1 ? "output" : "outputs") "
            + outputs.map { "'\($0)'" }.joined(separator: ", ")
            + " to no effect, so executing \(outputs.count == 1 ? "it" : "them") does nothing; map "
            + "\(outputs.count == 1 ? "it" : "them") in the machine's runtime")
      }
      for port in machine.outPorts where !isConnected(node, port, of: machine) {
        report(
          .unconnectedPort, .warning, at: path,
          "\(owner): out-port '\(port.name)' is not connected, so its events are discarded; add a "
            + "pipe from '\(node.name).\(port.name)'")
      }
    }
  }

  /// Checks that events of a machine have the field that the node uses as the key.
  private mutating func checkKey(
    of node: NodeSpecification, _ machine: MachineDescription, owner: String, at path: [String]
  ) {
    guard let key = node.key else { return }
    for label in node.final where !machine.states.contains(where: { $0.name == label }) {
      report(
        .unknownState, at: ["nodes", node.name, "final"],
        "\(owner): machine '\(machine.machine)' has no state '\(label)'"
          + (machine.stateFields == nil
            ? Suggestion.among(machine.states.map(\.name), like: label)
            : "; its state is a struct, which has no labels"))
    }
    // A value without a label may be a struct with the field.
    let events = machine.events.filter { event in
      event.fields.contains { $0.name == key } || event.fields.map(\.name) == ["_0"]
    }
    guard events.isEmpty else { return }
    let fields = Set(machine.events.flatMap(\.fields).map(\.name)).sorted()
    report(
      .unknownField, at: path,
      "\(owner): no event of machine '\(machine.machine)' has a field '\(key)'"
        + Suggestion.among(fields, like: key, verb: "its events have"))
  }

  /// Returns whether a pipe starts at the port, or may be intended to.
  ///
  /// A pipe from a port that does not exist is reported as a separate error.
  private func isConnected(
    _ node: NodeSpecification, _ port: PortDescription, of machine: MachineDescription
  ) -> Bool {
    let names = machine.outPorts.map(\.name)
    return topology.pipes.contains { pipe in
      guard pipe.sender == node.name, let name = pipe.outPort else { return false }
      if names.contains(name) { return name == port.name }
      return Suggestion.closest(to: name, among: names).map { $0 == port.name } ?? true
    }
  }

  private mutating func check(_ monitor: MonitorSpecification) {
    guard let program = topology.program(of: monitor),
      let description = descriptions.programs[program],
      !description.monitors.contains(monitor.monitor)
    else { return }
    report(
      .unknownMonitor, at: ["monitors", monitor.name, "monitor"],
      "monitor '\(monitor.name)': program '\(program)' has no monitor '\(monitor.monitor)'"
        + Suggestion.among(description.monitors, like: monitor.monitor))
  }
}
