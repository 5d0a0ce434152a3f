import PipeSupport
import PipeWire

extension TopologyReading {
  /// Checks the references between the parts of a topology.
  mutating func checkReferences(of topology: Topology) {
    for node in topology.nodes { checkNode(node, in: topology) }
    for monitor in topology.monitors { checkMonitor(monitor, in: topology) }
    checkComposites(of: topology)
    checkCycles(in: topology)
    checkPipeNames(topology.pipes, of: topology)
    for (index, pipe) in topology.pipes.enumerated() {
      checkPipe(pipe, path: ["pipes", String(index)], topology)
    }
    checkFormerNames(in: topology)
    checkExplore(of: topology)
  }

  private mutating func checkNode(_ node: NodeSpecification, in topology: Topology) {
    let path = ["nodes", node.name]
    if topology.program(of: node) == nil { reportNoProgram("node '\(node.name)'", path) }
    for dependency in node.dependsOn { checkDependency(dependency, of: node, in: topology) }
    checkRestart(of: node, at: path + ["restart"])
    checkInstances(of: node, at: path, in: topology)
    checkJournal(of: node, at: path + ["journal"], in: topology)
  }

  /// Reports limits of a journal for a node that keeps no journal.
  private mutating func checkJournal(
    of node: NodeSpecification, at path: [String], in topology: Topology
  ) {
    guard node.journal != .init() else { return }
    if node.constant != nil {
      report(
        .conflictingKeys, at: path,
        "node '\(node.name)': a constant keeps no journal; remove 'journal'")
    } else if topology.durability(of: node.name) == .volatile {
      report(
        .conflictingKeys, at: path,
        "node '\(node.name)': 'journal' has no effect with 'durability: none'; remove one of them")
    }
  }

  /// Checks the keys of a node with instances, such as `key` and `resident`, and their use in the
  /// rest of the topology.
  private mutating func checkInstances(
    of node: NodeSpecification, at path: [String], in topology: Topology
  ) {
    let owner = "node '\(node.name)'"
    guard node.key != nil else {
      let given = [
        ("resident", node.maximumResidentInstances != nil), ("final", !node.finalStates.isEmpty),
        ("keep", node.keepDuration != nil), ("shards", node.shards != 1),
      ]
      for (name, isGiven) in given where isGiven {
        report(
          .conflictingKeys, at: path + [name],
          "\(owner): '\(name)' requires 'key'; add 'key: FIELD', or remove '\(name)'")
      }
      return
    }
    if node.keepDuration != nil, node.finalStates.isEmpty {
      report(
        .conflictingKeys, at: path + ["keep"],
        "\(owner): 'keep' requires 'final'; add 'final: [STATE]', or remove 'keep'")
    }
    if node.constant != nil {
      report(
        .conflictingKeys, at: path + ["key"],
        "\(owner): a constant has no instances; remove 'key', or replace 'constant' by 'machine'")
    }
    if node.maximumResidentInstances != nil, topology.durability(of: node.name) == .volatile {
      report(
        .conflictingKeys, at: path + ["resident"],
        "\(owner): 'resident' requires a journal, from which instances return into memory; remove "
          + "'durability: none', or remove 'resident'")
    }
  }

  private mutating func checkRestart(of node: NodeSpecification, at path: [String]) {
    let restart = node.restart
    guard restart.minimumTimeToFailure == nil else { return }
    report(
      .unreachableLimit, .warning, at: path,
      "node '\(node.name)': \(restart.maximumRestarts) restart\(restart.maximumRestarts == 1 ? "" : "s") cannot happen "
        + "within \(restart.window.shortText), given the delays of 'backoff', so a node that "
        + "keeps failing is restarted forever; raise 'window', or lower 'max' or the delays of "
        + "'backoff'")
  }

  private mutating func checkMonitor(_ monitor: MonitorSpecification, in topology: Topology) {
    let path = ["monitors", monitor.name]
    let owner = "monitor '\(monitor.name)'"
    if topology.program(of: monitor) == nil { reportNoProgram(owner, path) }
    for (index, name) in (monitor.watchedNames ?? []).enumerated() {
      let mark = source.position(of: path + ["watch", String(index)])
      checkName(name, at: mark, owner: owner, among: [.node, .composite])
    }
  }

  mutating func reportNoProgram(_ owner: String, _ path: [String]) {
    report(
      .noProgram, at: source.position(ofKey: path),
      "\(owner) has no program; add 'program: NAME' to \(owner) or to the topology")
  }

  mutating func checkName(
    _ name: String, at mark: TextPosition, owner: String, among kinds: [Kind] = [.node]
  ) {
    if let kind = definitionsByName[name]?.kind, kinds.contains(kind) { return }
    report(
      .unknownNode, at: mark,
      "\(owner): no such node '\(name)'"
        + Suggestion.among(kinds.flatMap(definedNames(of:)), like: name, verb: "the topology has"))
  }

  private mutating func checkPipeNames(_ pipes: [PipeSpecification], of topology: Topology) {
    var firstPositions: [String: TextPosition] = [:]
    for (index, pipe) in pipes.enumerated() {
      let position = source.position(of: ["pipes", String(index), "name"])
      let names = Set(topology.pipesOfShards(pipe).map(\.name) + [pipe.name])
      if let taken = names.sorted().first(where: { firstPositions[$0] != nil }),
        let mark = firstPositions[taken]
      {
        report(
          .nameTaken, at: position,
          "duplicate pipe '\(taken)', first defined at line \(mark.line), column "
            + "\(mark.column); give one of the pipes another 'name'")
      } else {
        for name in names { firstPositions[name] = position }
      }
    }
  }

  private mutating func checkPipe(
    _ pipe: PipeSpecification, path: [String], _ topology: Topology
  ) {
    let owner = "pipe '\(pipe.name)'"
    checkName(
      pipe.sender, at: source.position(of: path + ["from"]), owner: owner,
      among: [.node, .composite])
    checkRule(of: pipe, owner: owner, path: path, topology)
    checkName(
      pipe.receiver, at: source.position(of: path + ["to"]), owner: owner,
      among: [.node, .composite])
    if let port = pipe.inPort, definitionsByName[pipe.receiver]?.kind == .composite {
      report(
        .unknownPort, at: path + ["to"],
        "\(owner): '\(pipe.receiver)' is a composite and has no in-port '\(port)'; write "
          + "'to: \(pipe.receiver)'")
    }
    if topology.node(pipe.receiver)?.constant != nil {
      report(
        .constantReceiver, at: path + ["to"],
        "\(owner): node '\(pipe.receiver)' is constant and accepts no events; remove the pipe, or "
          + "give the node a 'machine' without 'constant'")
    }
    if topology.node(pipe.receiver)?.key != nil, pipe.onRefused == .postpone {
      report(
        .badValue, at: path + ["on_refused"],
        "\(owner): 'on_refused' cannot be 'postpone': node '\(pipe.receiver)' has a 'key'; use "
          + "'record' or 'fail'")
    }
    let isComposite = topology.composite(pipe.sender) != nil
    if pipe.sender == pipe.receiver, topology.node(pipe.sender).map({ $0.constant == nil }) != false
    {
      let kind = isComposite ? "composite" : "node"
      report(
        .selfPipe, .warning, at: path + ["to"],
        "\(owner) connects \(kind) '\(pipe.sender)' to itself: when the pipe is full, the \(kind) "
          + "accepts no events and waits forever (deadlock); keep fewer events in flight than "
          + "the pipe's capacity, or send the event from an effect of the state's output")
    }
    checkDurability(of: pipe, path: path, topology)
    guard let constant = topology.node(pipe.sender)?.constant else { return }
    if let port = pipe.outPort {
      report(
        .unknownPort, at: path + ["from"],
        "\(owner): node '\(pipe.sender)' is constant and has no out-port '\(port)'; write "
          + "'from: \(pipe.sender)' with 'when' and 'send'")
    } else if let when = pipe.enteredState, let state = constant.caseName, when != state {
      report(
        .unknownState, at: path + ["when"],
        "\(owner): node '\(pipe.sender)' is constant and never enters '\(when)'"
          + Suggestion.among([state], like: when, verb: "it stays in"))
    }
  }

  /// Checks the source of a composite's pipe. A composite has no ports, and its rule names a state
  /// of its projection or states of its nodes.
  private mutating func checkRule(
    of pipe: PipeSpecification, owner: String, path: [String], _ topology: Topology
  ) {
    guard let composite = topology.composite(pipe.sender) else {
      guard pipe.enteredStatesByNode != nil, topology.node(pipe.sender) != nil else { return }
      report(
        .badValue, at: path + ["when"],
        "\(owner): '\(pipe.sender)' is a node and has one state; write 'when: STATE'")
      return
    }
    if let port = pipe.outPort {
      report(
        .unknownPort, at: path + ["from"],
        "\(owner): '\(composite.name)' is a composite and has no out-port '\(port)'; write "
          + "'from: \(composite.name)' with 'when' and 'send'")
    } else if composite.key != nil {
      report(
        .badValue, at: path + ["from"],
        "\(owner): composite '\(composite.name)' has a 'key', and its state is the number of "
          + "instances in each state; write 'from: NODE' with the node whose instances enter the state"
      )
    } else if let states = pipe.enteredStatesByNode {
      if let projection = composite.projection {
        report(
          .badValue, at: path + ["when"],
          "\(owner): composite '\(composite.name)' has projection '\(projection)'; name a state of "
            + "the projection: 'when: STATE'")
      }
      let nodes = topology.memberNames(of: composite.name).filter { topology.node($0) != nil }
      for name in states.keys.sorted() where !nodes.contains(name) {
        report(
          .unknownNode, at: source.position(ofKey: path + ["when", name]),
          "\(owner): composite '\(composite.name)' has no node '\(name)'"
            + Suggestion.among(nodes.sorted(), like: name))
      }
    } else if let when = pipe.enteredState, composite.projection == nil {
      report(
        .badValue, at: path + ["when"],
        "\(owner): composite '\(composite.name)' has no projection, and therefore no state "
          + "'\(when)'; name the states of its nodes, as in 'when: { NODE: STATE }', or add a "
          + "'projection'"
      )
    }
  }

  /// Checks that a pipe is not more durable than its nodes, whose journals contain the pipe's
  /// events.
  private mutating func checkDurability(
    of pipe: PipeSpecification, path: [String], _ topology: Topology
  ) {
    guard let level = pipe.durability,
      let name = [pipe.sender, pipe.receiver].first(where: {
        let takesPart =
          topology.node($0).map { $0.constant == nil } ?? (topology.composite($0) != nil)
        return takesPart && topology.durability(of: $0) < level
      })
    else { return }
    let kind = topology.composite(name) == nil ? "node" : "composite"
    let remedy = kind == "node" ? "the node's" : "its components'"
    report(
      .badValue, at: path + ["durability"],
      "pipe '\(pipe.name)': 'durability' cannot be '\(level.rawValue)': \(kind) '\(name)' has the "
        + "lower durability '\(topology.durability(of: name).rawValue)'; raise \(remedy) "
        + "'durability', or remove the pipe's")
  }
}
