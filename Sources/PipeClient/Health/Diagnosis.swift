import PipeMachines
import PipeSupport
import PipeWire

/// A root cause that keeps nodes of a topology from working, with the nodes that it blocks.
package struct Diagnosis: Hashable, Sendable {
  /// The severity of a root cause. The cases are in order, from the worst to the mildest.
  package enum Severity: String, Hashable, Sendable, CaseIterable {
    /// Events wait, or a node has failed. The topology does not recover on its own.
    case failure
    /// The topology works or recovers on its own, but a user should look at the cause.
    case warning
    /// Nothing is wrong; for example, a node waits, or was restarted.
    case note
  }

  /// A root cause.
  package enum Cause: Hashable, Sendable {
    /// The node does not run.
    case notRunning(phase: String, reason: String?)
    /// The node runs and waits for no other node, but does not process the events of a full pipe.
    case notKeepingUp(Activity)
    /// Each of these nodes waits for the next node, and the last node waits for the first node.
    case cycle([String])
    /// The coordinator runs, but a participant is in doubt: the participant does not know the
    /// coordinator's decision.
    case undecided
    /// The node has refused events. `count` events are stored as dead letters, and `lost` more
    /// events were not stored.
    case deadLetters(count: UInt64, lost: UInt64)
    /// The disk with the node's journal is nearly full.
    case nearlyFullDisk(DiskSpace)
    /// The node was restarted a short time ago. `count` is the number of restarts, and `age` the
    /// time since the last restart.
    case restarted(count: UInt64, age: Duration)
    /// The node has been in the same state for a long time, while effects run.
    case longEffects(Activity)
    /// The next timer of the node is due after a long time.
    case distantTimer(RunningTimer)
  }

  /// The current state of a node, and the work that the node does in this state.
  package struct Activity: Hashable, Sendable {
    /// The state as text.
    package var state: String?
    /// The time since the entry into the state; `nil` if it is unknown.
    package var age: Duration?
    /// The number of running effects.
    package var runningEffectCount: Int
    /// The number of received events that wait for their turn.
    package var waitingEventCount: Int
    package var timer: RunningTimer?
  }

  /// A node that waits for another node.
  package struct BlockedNode: Hashable, Sendable {
    /// The reason why a node waits.
    package enum Reason: Hashable, Sendable {
      /// An outbound pipe is full. `underWay` is the number of events that the receiver has not
      /// applied yet.
      case fullPipe(name: String, underWay: UInt64, capacity: Int)
      /// The node is in doubt in a transaction.
      case inDoubt(InDoubtTransaction)
      /// The node is a coordinator that is embedded in the target, and the target does not run.
      case carrier
    }

    package var node: String
    /// The node or coordinator that the node waits for.
    package var target: String
    package var reason: Reason
    /// The length of the chain from this node to the root cause: 1 if the node waits for the root
    /// cause itself.
    package var distance: Int
  }

  /// A command that removes the root cause, or shows more about it.
  package enum Remedy: Hashable, Sendable {
    case start(String)
    case showDeadLetters(String)
    case showJournalSizes

    /// The command line, without the option for the topology.
    package var command: String {
      switch self {
      case .start(let node): "orchestrator start \(node)"
      case .showDeadLetters(let node): "orchestrator dead-letters \(node)"
      case .showJournalSizes: "orchestrator journal --size"
      }
    }
  }

  /// The node or coordinator that is the root cause. If the root cause is a cycle, the first node
  /// of the cycle.
  package var node: String
  package var cause: Cause
  package var severity: Severity
  /// The nodes that wait for the root cause, nearest first.
  package var blocked: [BlockedNode] = []

  package var remedy: Remedy? {
    switch cause {
    case .notRunning(let phase, _):
      ["stopped", "completed", "failed", "idle"].contains(phase) ? .start(node) : nil
    case .deadLetters: .showDeadLetters(node)
    case .nearlyFullDisk: .showJournalSizes
    case .notKeepingUp, .cycle, .undecided, .restarted, .longEffects, .distantTimer: nil
    }
  }
}

// MARK: Diagnoses as text

extension Diagnosis {
  /// The maximum number of blocked nodes that a text names.
  private static let nameLimit = 4

  /// Returns the diagnosis as one line: `Stuck: c is stopped → b is blocked (4 of 4)`.
  /// - Parameter now: The current time. Unit: nanoseconds since 1970.
  package func text(at now: Int64) -> String {
    let isStuck = severity == .failure && (!blocked.isEmpty || isCycle)
    // The text of an undecided transaction already names the participant that waits.
    let shown = cause == .undecided ? Array(blocked.dropFirst()) : blocked
    return (isStuck ? "Stuck: " : "") + rootText(at: now) + Self.text(of: shown, at: now)
  }

  private var isCycle: Bool { if case .cycle = cause { true } else { false } }

  private func rootText(at now: Int64) -> String {
    switch cause {
    case .notRunning(let phase, let reason): Self.text(of: node, phase, reason)
    case .notKeepingUp(let activity):
      activity.waitingEventCount > 0
        ? "\(node) \(activity.text), \(activity.waitingEventCount.counted("event")) waiting"
        : "\(node) \(activity.text)"
    case .cycle(let nodes):
      nodes.count == 1
        ? "\(node) waits for itself: its pipe to itself is full"
        : "the pipes of a cycle are full: "
          + (nodes + [nodes[0]]).joined(separator: " waits for ")
    case .undecided:
      blocked.first.map { first in
        "\(first.node) waits for \(first.target)" + first.reasonText(at: now)
      } ?? "\(node) has not decided"
    case .deadLetters(let count, let lost):
      "\(node): \(count.counted("dead letter"))"
        + (lost > 0 ? ", \(lost) more refused events were not stored" : "")
    case .nearlyFullDisk(let disk):
      "\(node): the disk with its journal is \(disk.usedPercent) % full, with "
        + "\(ByteSizeText.rounded(disk.free)) free"
    case .restarted(let count, let age):
      "\(node) was restarted "
        + (count == 1 ? "" : "\(count) times, the last time ") + "\(age.shortText) ago"
    case .longEffects(let activity): "\(node) \(activity.text)"
    case .distantTimer(let timer): "\(node) waits for a timer: \(timer.text(at: now))"
    }
  }

  private static func text(of node: String, _ phase: String, _ reason: String?) -> String {
    let condition =
      switch phase {
      case "failed", "completed": "has \(phase)"
      default: "is \(phase)"
      }
    guard let reason, !reason.isEmpty, phase != "stopped" else { return "\(node) \(condition)" }
    return "\(node) \(condition): \(reason.printable)"
  }

  private static func text(of blocked: [BlockedNode], at now: Int64) -> String {
    let named = blocked.count > nameLimit ? Array(blocked.prefix(nameLimit - 1)) : blocked
    var text = ""
    var distance = 0
    for node in named {
      text += node.distance == distance ? ", " : " → "
      distance = node.distance
      text += node.text(at: now)
    }
    let rest = blocked.count - named.count
    return rest > 0 ? text + " → \(rest) more nodes are blocked" : text
  }
}

extension Diagnosis.BlockedNode {
  fileprivate func text(at now: Int64) -> String {
    switch reason {
    case .fullPipe, .inDoubt: "\(node) is blocked" + reasonText(at: now)
    case .carrier: "\(node) waits"
    }
  }

  /// The reason as text, such as ` (4 of 4)` or ` (release in doubt for 3 s)`.
  fileprivate func reasonText(at now: Int64) -> String {
    switch reason {
    case .fullPipe(_, let underWay, let capacity): " (\(underWay) of \(capacity))"
    case .inDoubt(let doubt):
      " (\(doubt.event) in doubt for "
        + "\(Duration.nanoseconds(max(0, now - doubt.since)).shortText)\(doubt.otherInstancesText))"
    case .carrier: ""
    }
  }
}

extension Diagnosis.Activity {
  /// The activity as text, such as `has been in cooking for 12 s, running 1 effect`.
  fileprivate var text: String {
    var text = "does not process its events"
    if let state {
      text = age.map { "has been in \(state) for \($0.shortText)" } ?? "is in \(state)"
    }
    return runningEffectCount > 0
      ? text + ", running \(runningEffectCount.counted("effect"))" : text
  }
}

// MARK: Diagnoses as JSON

extension Diagnosis {
  /// Returns the diagnosis as JSON.
  package func record(at now: Int64) -> JSONValue {
    [
      "severity": .string(severity.rawValue), "cause": .string(code), "node": .string(node),
      "text": .string(text(at: now)), "command": .optional(remedy?.command),
      "starts": {
        if case .start(let node)? = remedy { .string(node) } else { .null }
      }(),
      "blocked": .array(
        blocked.map { blocked in
          var record: [String: JSONValue] = [
            "node": .string(blocked.node), "waitsFor": .string(blocked.target),
          ]
          switch blocked.reason {
          case .fullPipe(let name, let underWay, let capacity):
            record["pipe"] = .string(name)
            record["underWay"] = .count(underWay)
            record["capacity"] = .integer(Int64(capacity))
          case .inDoubt(let doubt): record["transaction"] = .string("\(doubt.transaction)")
          case .carrier: break
          }
          return .object(record)
        }),
    ]
  }

  /// A one-word code of the cause, for programs.
  package var code: String {
    switch cause {
    case .notRunning: "notRunning"
    case .notKeepingUp: "notKeepingUp"
    case .cycle: "cycle"
    case .undecided: "undecided"
    case .deadLetters: "deadLetters"
    case .nearlyFullDisk: "nearlyFullDisk"
    case .restarted: "restarted"
    case .longEffects: "longEffects"
    case .distantTimer: "distantTimer"
    }
  }
}
