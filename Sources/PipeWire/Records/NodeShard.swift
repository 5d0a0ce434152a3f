import PipeMachines

/// One of the processes among which a node with `shards` divides its instances. Source:
/// docs/INSTANCES.md.
public struct NodeShard: Codable, Hashable, Sendable {
  /// The name of the node in the topology file.
  public var node: String
  /// The index of the shard, from 0.
  public var index: Int
  /// The number of shards of the node.
  public var count: Int

  package init(of node: String, index: Int, count: Int) {
    self.node = node
    self.index = index
    self.count = count
  }

  /// The name of the shard's process: `orders.0`. Names in a topology file have no dot.
  public var name: String { "\(node).\(index)" }

  /// Reads the name of a shard's process; `nil` for any other name.
  package init?(named name: String, count: Int) {
    guard let dot = name.lastIndex(of: "."), let index = Int(name[name.index(after: dot)...]),
      (0..<count).contains(index)
    else { return nil }
    self.init(of: String(name[..<dot]), index: index, count: count)
  }

  /// Returns the process names of nodes. The name of a node with shards is replaced by the names of
  /// its shards.
  /// - Parameters:
  ///   - names: The names of nodes or processes.
  ///   - known: The names of all processes.
  package static func processes(of names: [String], among known: [String]) -> [String] {
    names.flatMap { name in
      let shards =
        known.contains(name)
        ? [] : known.filter { NodeShard(named: $0, count: .max)?.node == name }
      return shards.isEmpty ? [name] : shards
    }
  }

  /// Returns the index of the shard that owns the slot of a key if a node has `count` shards.
  package static func index(of key: InstanceKey, among count: Int) -> Int {
    key.slot * count / InstanceKey.slotCount
  }

  /// Whether the shard owns the slot of a key.
  package func owns(_ key: InstanceKey) -> Bool { Self.index(of: key, among: count) == index }
}
