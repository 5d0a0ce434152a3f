import PipeMachines
import PipeSupport
import PipeWire

/// Checks a topology against the descriptions of its programs: their machines, ports, states and
/// events.
///
/// The checker does not repeat the checks of ``TopologyReader``. Programs and machines without a
/// description are skipped: the caller reports why a description is missing.
public struct TopologyChecker: DiagnosticCollector {
  /// The descriptions of a topology's programs and nodes.
  public struct Descriptions: Sendable {
    /// The programs, by the names that the topology uses.
    public var programs: [String: ProgramDescription]
    /// For each node, the description of its machine with the node's parameters. For nodes that are
    /// not included, the description in ``programs`` is used.
    public var nodes: [String: MachineDescription]

    /// Makes descriptions.
    public init(
      programs: [String: ProgramDescription], nodes: [String: MachineDescription] = [:]
    ) {
      self.programs = programs
      self.nodes = nodes
    }

    /// Returns the schema version of a pipe's events; `nil` if the receiver has no machine.
    ///
    /// All versions here are schema versions of the receiver's machine. The events of a port have
    /// the version that the port declares. Without a declaration, they have the version of the
    /// receiver's machine in the sender's program, or else version 1. The events of a rule are
    /// written in the topology file, so they have the current version of the receiver's machine.
    package func schema(ofEventsOf pipe: PipeSpecification, in topology: Topology) -> Int? {
      guard let receiver = topology.node(pipe.receiver), let machine = receiver.machine else {
        return nil
      }
      guard pipe.eventTemplate == nil else { return schema(of: receiver, in: topology) }
      let sender = topology.node(pipe.sender)
      let program = sender.flatMap { topology.program(of: $0) }.flatMap { programs[$0] }
      let own = nodes[pipe.sender] ?? sender?.machine.flatMap { program?.machine($0) }
      let port = own?.outPorts.first { $0.name == pipe.outPort }
      return port?.schema ?? program?.machine(machine)?.schema ?? 1
    }

    /// Returns the schema version of a node's machine; `nil` if the node has no machine.
    func schema(of node: NodeSpecification, in topology: Topology) -> Int? {
      guard let machine = node.machine else { return nil }
      let program = topology.program(of: node).flatMap { programs[$0] }
      return (nodes[node.name] ?? program?.machine(machine))?.schema ?? 1
    }
  }

  let topology: Topology
  let source: SourceMap
  let descriptions: Descriptions
  var diagnostics: [Diagnostic] = []
  /// The composites of the topology; `nil` if they are invalid or not yet checked.
  var composites: TopologyComposites?

  /// Checks a topology.
  /// - Returns: The errors and warnings in file order; empty if there are none.
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

  /// Returns the description of a node's machine; `nil` if there is none.
  func machine(of node: NodeSpecification) -> MachineDescription? {
    if let description = descriptions.nodes[node.name] { return description }
    guard let machine = node.machine, let program = topology.program(of: node) else { return nil }
    let description = descriptions.programs[program]?.machine(machine)
    return description?.error == nil ? description : nil
  }

  // MARK: Checks of nodes and monitors

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
      // If the state is a struct, the machine checks the constant's state when the node starts.
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

  /// Checks that the events of a node with instances have the field that the node uses as its key.
  private mutating func checkKey(
    of node: NodeSpecification, _ machine: MachineDescription, owner: String, at path: [String]
  ) {
    guard let key = node.key else { return }
    if let problem = machine.keyProblem {
      report(.badValue, at: path, "\(owner): \(problem)")
      return
    }
    for label in node.finalStates where !machine.states.contains(where: { $0.name == label }) {
      report(
        .unknownState, at: ["nodes", node.name, "final"],
        "\(owner): machine '\(machine.machine)' has no state '\(label)'"
          + (machine.stateFields == nil
            ? Suggestion.among(machine.states.map(\.name), like: label)
            : "; its state is a struct, which has no labels"))
    }
    for timer in machine.timers ?? [] where node.finalStates.contains(timer.state) {
      report(
        .badValue, at: ["nodes", node.name, "final"],
        "\(owner): machine '\(machine.machine)' has a timer in state '\(timer.state)', but an "
          + "instance that has ended takes no step; remove the state from 'final', or its 'After'")
    }
    // An associated value without a label may be a struct that contains the field.
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

  /// Returns whether a pipe starts at the port, or was probably meant to start there.
  ///
  /// A pipe with a misspelled port counts as connected, since the misspelling is reported as
  /// another error.
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
