import PipeWire

extension TopologyReading {
  /// Reads the whole file; `nil` where not even a value can be made of it.
  mutating func topology(_ root: YAMLNode) -> Topology? {
    let place = TopologyPlace(node: root, path: [], owner: "the topology")
    source.record([], key: root.mark, value: root.mark)
    guard case .mapping = root.content else {
      report(
        .badValue, place,
        "must be a mapping that starts with 'topology: NAME', not "
          + root.summary)
      return nil
    }
    guard let fields = fields(of: place, TopologyKeys.top) else { return nil }
    var topology = Topology(name: "")
    if let name = fields["topology"] { topology.name = self.name(name, dots: true) ?? "" }
    if let program = fields["program"] { topology.program = string(program) }
    if let place = fields["environment"] { topology.environment = environment(place) }
    if let place = fields["timeouts"] { topology.timeouts = timeouts(place) }
    var names = Names()
    if let place = fields["nodes"] { topology.nodes = nodes(place, &names) }
    if let place = fields["composites"] { topology.composites = composites(place, &names) }
    if let place = fields["monitors"] { topology.monitors = monitors(place, &names) }
    var pipes: [(index: Int, pipe: PipeSpecification)] = []
    if let place = fields["pipes"] { pipes = self.pipes(place) }
    topology.pipes = pipes.map(\.pipe)
    checkReferences(of: topology, pipes: pipes, names: names)
    // What is checked against the programs finds the others by their place among these.
    source.keepElements(pipes.map(\.index), of: "pipes")
    return topology
  }

  /// The names that the file gives to nodes, composites and monitors, broken ones included.
  struct Names {
    var nodes: [String] = []
    var composites: [String] = []
    private var first: [String: (kind: String, mark: SourceMark)] = [:]

    func isNode(_ name: String) -> Bool { first[name]?.kind == "node" }
    func isComposite(_ name: String) -> Bool { first[name]?.kind == "composite" }
    func isMonitor(_ name: String) -> Bool { first[name]?.kind == "monitor" }

    /// Takes a name; returns what has it already.
    mutating func take(
      _ name: String, kind: String, at mark: SourceMark
    ) -> (kind: String, mark: SourceMark)? {
      if let taken = first[name] { return taken }
      first[name] = (kind, mark)
      if kind == "node" { nodes.append(name) }
      if kind == "composite" { composites.append(name) }
      return nil
    }
  }

  /// The members of `nodes`, `composites` or `monitors`: things with names of one space.
  mutating func namedMembers(
    of place: TopologyPlace, kind: String, _ names: inout Names
  ) -> [(key: String, value: TopologyPlace)] {
    var result: [(key: String, value: TopologyPlace)] = []
    for member in members(of: place, noun: kind, hint: "a mapping from names") ?? [] {
      let owner = "\(kind) '\(member.key)'"
      if let taken = names.take(member.key, kind: kind, at: member.mark) {
        report(
          .nameTaken, at: member.mark,
          "\(owner): the name is taken by the \(taken.kind) at line "
            + "\(taken.mark.line), column \(taken.mark.column); rename one")
      }
      if checkName(member.key, dots: false, at: member.mark, title: kind) {
        checkText(of: member, title: owner)
        result.append((member.key, member.value.named(owner)))
      }
    }
    return result
  }

  private mutating func timeouts(_ place: TopologyPlace) -> Timeouts {
    var timeouts = Timeouts()
    let fields = fields(of: place, TopologyKeys.timeouts) ?? [:]
    if let value = fields["start"].flatMap({ duration($0) }) { timeouts.start = value }
    if let value = fields["heartbeat"].flatMap({ duration($0) }) { timeouts.heartbeat = value }
    if let value = fields["stop"].flatMap({ duration($0) }) { timeouts.stop = value }
    return timeouts
  }

  private mutating func monitors(
    _ place: TopologyPlace, _ names: inout Names
  ) -> [MonitorSpecification] {
    var monitors: [MonitorSpecification] = []
    for (name, value) in namedMembers(of: place, kind: "monitor", &names) {
      guard let fields = fields(of: value, TopologyKeys.monitor) else { continue }
      var monitor = MonitorSpecification(
        fields["monitor"].flatMap { string($0) } ?? "", name: name)
      monitor.program = fields["program"].flatMap { string($0) }
      if let watch = fields["watch"] {
        let list = nameList(watch)
        monitor.watch = list
        if list?.isEmpty == true {
          report(.badValue, watch, "is empty; leave it out to watch all nodes")
        }
      }
      monitors.append(monitor)
    }
    return monitors
  }

  /// A list of names, each once.
  mutating func nameList(_ place: TopologyPlace, of what: String = "names") -> [String]? {
    let hint = "a list of \(what)"
    guard let elements = elements(of: place, hint: hint) else { return nil }
    var names: [String] = []
    for element in elements {
      guard let name = string(element, hint: hint) else { continue }
      if names.contains(name) {
        report(.duplicateKey, element, "names '\(name)' twice; remove one")
      } else {
        names.append(name)
      }
    }
    return names
  }
}
