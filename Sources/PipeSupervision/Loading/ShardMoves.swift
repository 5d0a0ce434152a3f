import PipeClient
import PipeJournal
import PipeSystem
import PipeTopology
import PipeWire

/// The moves of instances that a topology needs because the number of a node's shards has changed.
package struct ShardMoves {
  private let loaded: LoadedTopology
  private let plan: LaunchPlan

  /// - Parameter plan: The plan of the topology.
  package init(_ loaded: LoadedTopology, _ plan: LaunchPlan) {
    self.loaded = loaded
    self.plan = plan
  }

  /// Moves the instances of all nodes whose journals were written for another number of shards.
  /// Precondition: no process of these nodes or of their senders runs.
  /// - Parameter note: Called with a line of text for each moved node.
  /// - Throws: ``JournalError``, ``ShardMoveError`` or ``ShardPlaceError``.
  package func run(note: (String) -> Void) throws {
    for node in loaded.topology.nodes where node.key != nil {
      guard let move = try move(of: node), try move.isNeeded() else { continue }
      if let remote = plan.processes(of: [node.name]).first(where: { plan[$0]?.isRemote == true }) {
        throw ShardPlaceError(node: node.name, process: remote)
      }
      let report = try move.run()
      note(
        "node '\(node.name)': moved \(report.instanceCount) instances and \(report.eventCount) events to "
          + "\(node.shards) shard\(node.shards == 1 ? "" : "s")")
    }
  }

  /// Returns the former number of a node's shards, for which the journals were written, and the
  /// topology with the former number. Returns `nil` if the node has no journals, if the journals
  /// were written for different numbers of shards, or if the number has not changed.
  package func topologyWithFormerShards(of name: String) throws -> (
    topology: LoadedTopology, count: Int
  )? {
    guard let node = loaded.topology.node(name), !recordedProcesses(node).isEmpty else {
      return nil
    }
    let counts = try shardCounts(of: node)
    guard let count = counts.first, counts.count == 1, count != node.shards else { return nil }
    return (loaded.withShards(count, of: name), count)
  }

  /// Returns the move of a node's instances; `nil` if the node has no journals.
  private func move(of node: NodeSpecification) throws -> ShardMove? {
    let wanted = plan.processes(of: [node.name]).compactMap { process($0) }
    let former = recordedProcesses(node)
    guard let key = node.key, !former.isEmpty, !wanted.isEmpty else { return nil }
    let counts = try self.shardCounts(of: node)
    var pipes: [ShardMove.Pipe] = []
    var receivers: [String: ShardMove.Process?] = [:]
    for pipe in loaded.topology.pipes {
      if pipe.receiver == node.name {
        let senders = try self.shardCounts(of: pipe.sender)
        let now = ends(of: pipe, senders: senders, receivers: [node.shards])
        let before = ends(of: pipe, senders: senders, receivers: counts)
        for (sender, ends) in now {
          guard let process = process(sender) else { continue }
          pipes.append(.init(sender: process, former: before[sender] ?? [], ends: ends))
        }
      }
      if pipe.sender == node.name, pipe.receiver != node.name {
        for ends in ends(
          of: pipe, senders: counts, receivers: try self.shardCounts(of: pipe.receiver)
        )
        .values {
          for end in ends { receivers[end.name] = .some(process(end.receiver)) }
        }
      }
    }
    return ShardMove(
      of: node.name, key: key, topology: plan.topology, to: wanted, from: former, pipes: pipes,
      receiversByPipe: receivers)
  }

  /// Returns the pipes that connect the shards of a pipe's sender with the shards of its receiver,
  /// by the names of the sending processes. The result covers every combination of the given shard
  /// counts.
  private func ends(
    of pipe: PipeSpecification, senders: Set<Int>, receivers: Set<Int>
  ) -> [String: [ShardMove.PipeEnd]] {
    var found: [String: [ShardMove.PipeEnd]] = [:]
    for senderCount in senders.sorted() {
      for receiverCount in receivers.sorted() {
        var topology = loaded.topology
        for index in topology.nodes.indices {
          if topology.nodes[index].name == pipe.sender {
            topology.nodes[index].shards = senderCount
          }
          if topology.nodes[index].name == pipe.receiver {
            topology.nodes[index].shards = receiverCount
          }
        }
        for end in topology.pipesOfShards(pipe) {
          let sender = loaded.process(of: end.sender)
          let receiver = loaded.process(of: end.receiver)
          found[sender, default: []].append(.init(end.name, to: receiver))
        }
      }
    }
    return found
  }

  // MARK: Processes with journals

  /// Returns the numbers of shards for which the journals of a node were written: several after an
  /// interrupted move. Returns the number in the topology file if there are no journals.
  private func shardCounts(of name: String) throws -> Set<Int> {
    guard let node = loaded.topology.node(name) else { return [1] }
    return try shardCounts(of: node)
  }

  private func shardCounts(of node: NodeSpecification) throws -> Set<Int> {
    guard node.key != nil else { return [1] }
    let counts = try recordedProcesses(node).compactMap {
      try ShardMove.shardCount(ofJournal: $0.journalPath, of: $0.name)
    }
    return counts.isEmpty ? [node.shards] : Set(counts)
  }

  /// Returns those processes of a node for which a journal exists, including former shards.
  private func recordedProcesses(_ node: NodeSpecification) -> [ShardMove.Process] {
    guard let first = plan.processes(of: [node.name]).first,
      let path = plan[first]?.information.journal
    else { return [] }
    return JournalReader.nodesWithJournals(in: FileSystem.parentDirectory(of: path))
      .filter { $0 == node.name || NodeShard(named: $0, count: .max)?.node == node.name }
      .compactMap { process($0, like: first) }
  }

  /// Returns the process with this name, and its journal; `nil` if the process keeps no journal.
  /// - Parameter known: A process of the same node that is in the plan.
  private func process(_ name: String, like known: String? = nil) -> ShardMove.Process? {
    let shard = NodeShard(named: name, count: .max)
    let planned =
      plan[name] ?? known.flatMap { plan[$0] }
      ?? shard.flatMap { plan.processes(of: [$0.node]).first }.flatMap { plan[$0] }
    guard let planned, let path = planned.information.journal else { return nil }
    let directory = FileSystem.parentDirectory(of: path)
    return ShardMove.Process(
      name: name, journalPath: RuntimeDirectories.journal(of: name, in: directory),
      machine: planned.information.hosts ?? "", durability: planned.information.durability)
  }
}

/// The error that the journals of a node's shards are on other hosts, where their instances cannot
/// be moved.
package struct ShardPlaceError: Error, Hashable, Sendable, CustomStringConvertible {
  package let node: String
  package let process: String

  package var description: String {
    "the number of shards of node '\(node)' cannot change, because '\(process)' runs on another host; "
      + "keep the former number of shards"
  }
}
