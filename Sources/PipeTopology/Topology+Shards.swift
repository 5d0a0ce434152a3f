import PipeWire

extension Topology {
  /// The topology that is launched, in which nodes with several shards are replaced by one node for
  /// each shard.
  ///
  /// Each pipe from or to such a node is replaced by pipes from or to each shard.
  package var withShards: Topology {
    guard nodes.contains(where: { $0.shards > 1 }) else { return self }
    var launched = self
    launched.nodes = nodes.flatMap(shards).map { node in
      var node = node
      node.dependsOn = Set(
        node.dependsOn.flatMap { dependency in
          shardNames(of: dependency.node).map { NodeDependency($0, dependency.condition) }
        })
      return node
    }
    launched.pipes = pipes.flatMap(pipesOfShards)
    launched.monitors = monitors.map { monitor in
      var monitor = monitor
      monitor.watchedNames = monitor.watchedNames?.flatMap(shardNames)
      return monitor
    }
    return launched
  }

  /// Returns the names of a node's shards. If the node has only one shard, or no node has this
  /// name, returns the name itself.
  package func shardNames(of name: String) -> [String] {
    node(name).map { shards(of: $0).map(\.name) } ?? [name]
  }

  private func shards(of node: NodeSpecification) -> [NodeSpecification] {
    guard node.shards > 1 else { return [node] }
    return (0..<node.shards).map { index in
      let shard = NodeShard(of: node.name, index: index, count: node.shards)
      var copy = node
      copy.name = shard.name
      copy.shard = shard
      return copy
    }
  }

  /// Returns the pipes between the shards of a pipe's sender and receiver.
  package func pipesOfShards(_ pipe: PipeSpecification) -> [PipeSpecification] {
    let senders = shardNames(of: pipe.sender)
    let receiver = node(pipe.receiver)
    let shards = receiver.map { self.shards(of: $0).map(\.shard) } ?? [nil]
    guard senders.count * shards.count > 1 else { return [pipe] }
    let isNamed = pipe.name != pipe.derivedName
    return senders.flatMap { sender in
      shards.map { shard in
        var copy = pipe
        copy.sender = sender
        copy.receiver = shard?.name ?? pipe.receiver
        copy.name = copy.derivedName
        if isNamed {
          let ends = [sender == pipe.sender ? nil : sender, shard?.name].compactMap(\.self)
          copy.name = ([pipe.name] + ends.map { String($0.drop { $0 != "." }.dropFirst()) })
            .joined(separator: ".")
        }
        if let shard, let key = receiver?.key {
          copy.route = .init(pipe: pipe.name, key: key, shard: shard)
        }
        return copy
      }
    }
  }
}
