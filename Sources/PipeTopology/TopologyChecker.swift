import PipeMachines
import PipeSupport
import PipeWire

/// Checks a topology against what its programs tell of themselves: machines, ports, states, events.
///
/// What ``TopologyReader`` has checked is not checked again. A program or machine that is not
/// described is not judged: who could not get the description says so.
public struct TopologyChecker: Examiner {
  /// What the programs and nodes of a topology tell of themselves.
  public struct Descriptions: Sendable {
    /// By the program's name, as the topology has it.
    public var programs: [String: ProgramDescription]
    /// By node; a node that is missing is described by its program's machine of that name.
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
  /// The composites, once they are found to be sound.
  var composites: TopologyComposites?

  /// Checks a topology.
  /// - Returns: Errors and warnings in the order of the file; none where all fits.
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

  /// What a node's machine tells of itself, where that is known.
  func machine(of node: NodeSpecification) -> MachineDescription? {
    if let description = descriptions.nodes[node.name] { return description }
    guard let machine = node.machine, let program = topology.program(of: node) else { return nil }
    let description = descriptions.programs[program]?.machine(machine)
    return description?.problem == nil ? description : nil
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
      // A struct is judged by its own decoder, when the node starts.
      if machine.stateFields == nil {
        checkCase(
          constant, against: machine.states, kind: .state,
          holder: "machine '\(machine.machine)'", owner: owner, at: path + ["constant"])
      }
    } else {
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
          "\(owner): nothing is connected to out-port '\(port.name)', so what it sends goes "
            + "nowhere; add a pipe from '\(node.name).\(port.name)'")
      }
    }
  }

  /// Whether a pipe starts at the port, or may be meant to: one from a port that there is not is an
  /// error of its own.
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
