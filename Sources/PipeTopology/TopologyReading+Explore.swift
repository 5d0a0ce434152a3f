import PipeSupport
import PipeWire

extension TopologyReading {
  /// Checks that what is explored speaks of nodes and composites that there are.
  mutating func checkExplore(of topology: Topology) {
    guard let section = topology.explore else { return }
    let path = ["explore"]
    let owner = "'explore'"
    for name in (section.fromOutside ?? [:]).keys.sorted() {
      checkTaker(name, at: path + ["from_outside", name], owner: owner, topology)
    }
    for (name, events) in section.values.sorted(by: { $0.key < $1.key }) {
      for event in events.keys.sorted() {
        checkTaker(name, at: path + ["values", "\(name).\(event)"], owner: owner, topology)
      }
    }
    for name in section.gives.keys.sorted() {
      checkTaker(name, at: path + ["gives", name], owner: owner, topology, among: [.node])
    }
    for name in section.fold.keys.sorted() {
      checkTaker(name, at: path + ["fold", name], owner: owner, topology, among: [.node])
    }
    for (index, name) in section.any.enumerated() {
      checkName(
        name, at: source.mark(of: path + ["any", String(index)]), owner: "\(owner), 'any'")
    }
    for (index, end) in section.end.enumerated() {
      let list = path + ["end", String(index)]
      let isListed = end.states.keys.contains { source.has(list + [$0]) }
      checkStates(end, at: isListed ? list : path + ["end"], owner: "\(owner), 'end'")
    }
    for property in section.properties {
      checkStates(
        property.states, at: path + ["properties", property.name, property.demand.rawValue],
        owner: "property '\(property.name)'")
    }
    for (index, entry) in section.allow.enumerated() {
      checkAllowed(entry, at: path + ["allow", String(index)], topology)
    }
  }

  private mutating func checkAllowed(
    _ entry: AllowedFinding, at path: [String], _ topology: Topology
  ) {
    let owner = "'explore', 'allow'"
    if let node = entry.node {
      checkName(
        node, at: source.mark(of: path + ["node"]), owner: owner, among: [.node, .composite])
    }
    let pipes = topology.pipes.map(\.name)
    guard let pipe = entry.pipe, !pipes.contains(pipe) else { return }
    report(
      .badName, at: path + ["pipe"],
      "\(owner): there is no pipe '\(pipe)'" + Suggestion.among(pipes, like: pipe))
  }

  private mutating func checkTaker(
    _ name: String, at path: [String], owner: String, _ topology: Topology,
    among kinds: [Kind] = [.node, .composite]
  ) {
    let owner = "\(owner), '\(path[1])'"
    checkName(name, at: source.mark(ofKey: path), owner: owner, among: kinds)
    guard topology.node(name)?.constant != nil else { return }
    report(
      .badValue, at: source.mark(ofKey: path),
      "\(owner): node '\(name)' is constant and takes no events; leave it out")
  }

  private mutating func checkStates(
    _ combination: StateCombination, at path: [String], owner: String
  ) {
    for name in combination.states.keys.sorted() {
      checkName(
        name, at: source.mark(ofKey: path + [name]), owner: owner, among: [.node, .composite])
    }
  }
}
