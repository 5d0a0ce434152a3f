import PipeMachines
import PipeWire

/// Tells when nodes have begun, ended and come back.
struct NodeLives {
  private struct Life: Equatable {
    var incarnation: UInt64
    var phase: String
    var isRunning: Bool
    var restarts: UInt64
    var reason: String?

    init(_ node: NodeInformation) {
      incarnation = node.incarnation
      phase = node.phase
      isRunning = node.isRunning
      restarts = node.restarts
      reason = node.reason
    }

    var record: [String: JSONValue] {
      [
        "incarnation": .count(incarnation), "phase": .string(phase), "running": .bool(isRunning),
        "restarts": .count(restarts), "reason": .optional(reason),
      ]
    }
  }

  private var known: [String: Life] = [:]

  /// What has changed since the last time, with how it was before: who looks back wants to know that, too. Of a
  /// node that is seen for the first time nothing is told.
  mutating func changes(in directory: TopologyDirectory, now: Int64) -> [JSONValue] {
    directory.nodes.compactMap { node in
      let life = Life(node)
      guard let former = known.updateValue(life, forKey: node.name),
        former.incarnation != life.incarnation || former.phase != life.phase
      else { return nil }
      var record = life.record
      record["is"] = "life"
      record["node"] = .string(node.name)
      record["time"] = .integer(now)
      record["again"] = .bool(former.incarnation != life.incarnation)
      record["former"] = .object(former.record)
      return .object(record)
    }
  }
}
