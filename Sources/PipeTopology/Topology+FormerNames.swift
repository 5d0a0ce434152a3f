import PipeWire

extension Topology {
  /// The names that the topology's keys `was` change: of nodes and their shards, of composites, and
  /// of pipes, including the pipes whose names derive from the names of their ends.
  package var nameChanges: NameChanges {
    var changes = NameChanges()
    for node in nodes {
      for former in node.was {
        let formerShards = renaming(node.name, to: former).shardNames(of: former)
        for (formerName, name) in zip(formerShards, shardNames(of: node.name)) {
          changes.members[formerName] = name
        }
      }
    }
    for composite in composites {
      for former in composite.was { changes.members[former] = composite.name }
    }
    let names = Set(pipes.flatMap { pipesOfShards($0).map(\.name) })
    for pipe in pipes {
      let present = pipesOfShards(pipe)
      for former in formerPipes(of: pipe) {
        let topology = renaming(pipe.sender, to: former.sender)
          .renaming(pipe.receiver, to: former.receiver)
        for (former, present) in zip(topology.pipesOfShards(former), present)
        where !names.contains(former.name) {
          changes.pipes[former.name] = .init(
            present.name, from: present.sender, to: present.receiver)
        }
      }
    }
    return changes
  }

  /// Returns the pipe with each combination of the former names of its ends, and with each of its
  /// own former names.
  private func formerPipes(of pipe: PipeSpecification) -> [PipeSpecification] {
    var variants = [pipe]
    let ends = [pipe.sender, pipe.receiver] + (pipe.enteredStatesByNode?.keys.sorted() ?? [])
    for name in Set(ends).sorted() {
      let formerNames = node(name)?.was ?? composite(name)?.was ?? []
      variants += formerNames.flatMap { former in
        variants.map { $0.renamingEnds(named: name, to: former) }
      }
    }
    let isDerived = pipe.name == pipe.derivedName
    return variants.flatMap { variant in
      ([isDerived ? variant.derivedName : pipe.name] + pipe.was).map { name in
        var former = variant
        former.name = name
        return former
      }
    }
  }

  private func renaming(_ name: String, to former: String) -> Topology {
    var topology = self
    for index in nodes.indices where nodes[index].name == name {
      topology.nodes[index].name = former
    }
    return topology
  }
}

extension PipeSpecification {
  fileprivate func renamingEnds(named name: String, to former: String) -> PipeSpecification {
    var pipe = self
    if sender == name { pipe.sender = former }
    if receiver == name { pipe.receiver = former }
    if case .states(let states, let send) = source {
      let renamed = states.map { ($0.key == name ? former : $0.key, $0.value) }
      pipe.source = .states(Dictionary(renamed) { first, _ in first }, send: send)
    }
    return pipe
  }
}
