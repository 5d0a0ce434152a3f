import PipeMachines
import PipeWire

/// The sending ends of one pipe of the topology file. If the receiver has several shards, the pipe
/// has an end for each shard, and each event goes to the shard that owns the event's key.
///
/// Events with the same key thus arrive in the order in which they were sent.
final class PipeEnds {
  /// The name of the pipe in the topology file.
  let name: String
  /// The ends of the pipe. The index of an end is the index of its receiver's shard.
  let shardPipes: [OutPipe]
  @exclusivity(unchecked)
  private var keyReader: InstanceKeyReader?
  /// The JSON of the event whose shard is being determined.
  @exclusivity(unchecked)
  private var encodedEvent: [UInt8] = []

  /// - Parameter key: The name of the event field that contains the key; `nil` if the receiver has
  ///   one process.
  private init(_ name: String, _ all: [OutPipe], key: String?) {
    self.name = name
    self.shardPipes = all
    keyReader = key.map { InstanceKeyReader(field: $0) }
  }

  /// Groups the ends by the pipes of the topology file. The groups are in the order of their first
  /// ends.
  static func grouped(
    _ pairs: [(NodeConfiguration.Out, OutPipe)]
  ) -> [(NodeConfiguration.Out, PipeEnds)] {
    var shards: [String: [(shard: NodeShard, pipe: OutPipe)]] = [:]
    for (configuration, pipe) in pairs {
      guard let route = configuration.route else { continue }
      shards[route.pipe, default: []].append((route.shard, pipe))
    }
    return pairs.compactMap { configuration, pipe in
      guard let route = configuration.route else {
        return (configuration, PipeEnds(pipe.name, [pipe], key: nil))
      }
      guard route.shard.index == 0, let ends = shards[route.pipe] else { return nil }
      let ordered = ends.sorted { $0.shard.index < $1.shard.index }.map(\.pipe)
      return (configuration, PipeEnds(route.pipe, ordered, key: route.key))
    }
  }

  /// Whether the receiver has several shards.
  var isSharded: Bool { keyReader != nil }

  /// Whether any of the ends is full. The key of the next event is unknown, so the sender waits for
  /// all shards.
  var isFull: Bool { shardPipes.contains(where: \.isFull) }

  /// Returns the end to the shard that owns the key of an event. An event without a valid key goes
  /// to the first shard, which rejects it.
  func pipe(for event: [UInt8]) -> OutPipe {
    guard let key = try? keyReader?.key(ofEvent: event) else { return shardPipes[0] }
    return shardPipes[NodeShard.index(of: key, among: shardPipes.count)]
  }

  /// Queues an event for the shard that owns the event's key. `write` must append the event's JSON
  /// to its argument.
  func enqueue(_ write: (inout [UInt8]) throws -> Void) {
    encodedEvent.removeAll(keepingCapacity: true)
    do {
      try write(&encodedEvent)
    } catch {
      // Without the event's JSON, the shard is unknown. So the end to the first shard reports the
      // error, and counts the event.
      return shardPipes[0].enqueue { _ in throw error }
    }
    pipe(for: encodedEvent).enqueue { $0 += encodedEvent }
  }
}
