import PipeRuntime

/// A kind of fault that strikes hosts, Slurm, or processes on hosts.
package enum HostFaultKind: String, CaseIterable, Sendable {
  case kill = "kill -9 of a process"
  case cancel = "scancel of a step"
  case pause = "SIGSTOP, then SIGCONT"
  case hang = "SIGSTOP for longer than a lease"
  case hangAndPartition = "… and its host cut off meanwhile"
  case partition = "host cut off, and connected"
  case lossy = "30 % of a host's packets lost"
  case power = "host without power, and started"
  case daemon = "kill -9 of slurmd, and started"
  case controller = "kill -9 of slurmctld, and started"
  case orchestrator = "kill -9 of the orchestrator, and started"

  /// The relative frequency of the kind.
  var weight: Int {
    switch self {
    case .kill, .partition: 4
    case .cancel, .hang, .hangAndPartition, .lossy, .power, .orchestrator: 3
    case .pause, .daemon, .controller: 2
    }
  }

  /// Whether the fault claims a host. Only one such fault at a time strikes a host.
  package var isOfHost: Bool {
    switch self {
    case .hangAndPartition, .partition, .lossy, .power, .daemon: true
    case .kill, .cancel, .pause, .hang, .controller, .orchestrator: false
    }
  }

  /// Whether Slurm may remove the host from its job if the fault lasts too long.
  package var silencesHost: Bool { isOfHost && self != .lossy }
}

/// A randomly chosen fault.
package struct HostFault: Equatable, Sendable, CustomStringConvertible {
  package var kind: HostFaultKind
  /// The time from the previous fault to this fault. Unit: milliseconds.
  package var gap: Int
  /// The host that the fault strikes; 0 for the orchestrator's host.
  package var host: Int
  /// The node that the fault strikes.
  package var node: String
  /// The duration of the fault. Unit: milliseconds.
  package var time: Int

  package var description: String {
    let target: String
    switch kind {
    case .kill, .cancel: return "\(gap) ms \(name) \(node)"
    case .pause, .hang: target = node
    case .hangAndPartition: target = "\(node) fh\(host)"
    case .partition, .lossy, .power, .daemon: target = "fh\(host)"
    case .controller, .orchestrator: target = ""
    }
    return "\(gap) ms \(name)\(target.isEmpty ? "" : " " + target) for \(time) ms"
  }

  private var name: String {
    switch kind {
    case .kill: "kill"
    case .cancel: "scancel"
    case .pause: "pause"
    case .hang: "hang"
    case .hangAndPartition: "hang+cut"
    case .partition: "cut"
    case .lossy: "lossy"
    case .power: "power"
    case .daemon: "slurmd"
    case .controller: "slurmctld"
    case .orchestrator: "orchestrator"
    }
  }
}

/// Counts of the host faults that have struck.
package struct HostFaultCounts: Sendable {
  package private(set) var kinds: [HostFaultKind: Int] = [:]

  package init() {}

  package var total: Int { kinds.values.reduce(0, +) }

  package mutating func count(_ kind: HostFaultKind) { kinds[kind, default: 0] += 1 }

  package static func += (left: inout HostFaultCounts, right: HostFaultCounts) {
    left.kinds.merge(right.kinds, uniquingKeysWith: +)
  }

  /// The names of the faults that never struck.
  package var missing: [String] {
    HostFaultKind.allCases.filter { kinds[$0] == nil }.map(\.rawValue)
  }

  /// The counts as a table for people.
  var table: String {
    HostFaultKind.allCases.map { kind in
      let number = String(kinds[kind] ?? 0)
      let gap = max(1, 44 - kind.rawValue.count - number.count)
      return "  \(kind.rawValue)\(String(repeating: " ", count: gap))\(number)"
    }.joined(separator: "\n")
  }
}
