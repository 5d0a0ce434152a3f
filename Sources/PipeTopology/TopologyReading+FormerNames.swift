import PipeWire

extension TopologyReading {
  /// Checks that no former name is in use, and that no two items have the same former name.
  mutating func checkFormerNames(in topology: Topology) {
    var items = topology.nodes.map { (kind: Kind.node, name: $0.name, was: $0.was) }
    items += topology.composites.map { (kind: Kind.composite, name: $0.name, was: $0.was) }
    let formerNames = Dictionary(items.map { ($0.name, $0.was) }) { first, _ in first }
    var owners: [String: String] = [:]
    for item in items {
      let owner = "\(item.kind.rawValue) '\(item.name)'"
      for (index, former) in item.was.enumerated() {
        let mark = source.position(
          of: ["\(item.kind.rawValue)s", item.name, "was", String(index)])
        if former == item.name {
          report(.nameTaken, at: mark, "\(owner): 'was' lists its present name; remove it")
        } else if formerNames[former]?.contains(item.name) == true {
          report(
            .nameTaken, at: mark,
            "\(owner): '\(item.name)' and '\(former)' cannot exchange their names at once; rename "
              + "one of them to a third name first, and apply the file")
        } else if let taken = definitionsByName[former] {
          report(
            .nameTaken, at: mark,
            "\(owner): 'was' lists '\(former)', which is the name of the \(taken.kind.rawValue) at "
              + "line \(taken.position.line), column \(taken.position.column); rename that "
              + "\(taken.kind.rawValue) first and apply the file, or remove '\(former)' from 'was'")
        } else if let first = owners[former] {
          report(
            .nameTaken, at: mark,
            "\(owner): 'was' lists '\(former)', as does \(first); only one of them can have its "
              + "journal; remove '\(former)' from the other")
        } else {
          owners[former] = owner
        }
      }
    }
    checkFormerPipeNames(in: topology)
  }

  private mutating func checkFormerPipeNames(in topology: Topology) {
    let names = Set(topology.pipes.flatMap { topology.pipesOfShards($0).map(\.name) + [$0.name] })
    var owners: [String: String] = [:]
    for (index, pipe) in topology.pipes.enumerated() {
      for (position, former) in pipe.was.enumerated() {
        let mark = source.position(of: ["pipes", String(index), "was", String(position)])
        let owner = "pipe '\(pipe.name)'"
        if names.contains(former) {
          report(
            .nameTaken, at: mark,
            former == pipe.name
              ? "\(owner): 'was' lists its present name; remove it"
              : "\(owner): 'was' lists '\(former)', which is the name of another pipe; rename that "
                + "pipe first and apply the file, or remove '\(former)' from 'was'")
        } else if let first = owners[former] {
          report(
            .nameTaken, at: mark,
            "\(owner): 'was' lists '\(former)', as does \(first); only one of them can have its "
              + "events; remove '\(former)' from the other")
        } else {
          owners[former] = owner
        }
      }
    }
  }
}
