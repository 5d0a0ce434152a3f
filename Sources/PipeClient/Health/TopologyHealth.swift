import PipeMachines
import PipeSupport
import PipeWire

/// The root causes of all problems in a running topology.
///
/// Every view shows this value: `status`, `ps`, `why`, `ui`, the browser page and the metrics. The
/// value depends only on the topology directory and the time.
package struct TopologyHealth: Hashable, Sendable {
  /// The diagnoses, sorted by severity, worst first. Diagnoses of the same severity are in the
  /// order of the nodes.
  package private(set) var diagnoses: [Diagnosis] = []
  /// The phase of the topology.
  package let phase: String
  /// The time of the diagnoses. Unit: nanoseconds since 1970.
  package let time: Int64

  /// The longest wait of a node that still counts as normal back-pressure.
  private static let normalWaitLimit: Duration = .seconds(2)
  /// The threshold for two notes: a node has run effects in one state for at least this time, or
  /// the next timer of a node is due after at least this time.
  private static let longWait: Duration = .seconds(60)
  /// The duration for which a restart continues to be reported.
  private static let recentRestart: Duration = .seconds(60)

  /// - Parameter time: The current time. Unit: nanoseconds since 1970.
  package init(_ directory: TopologyDirectory, at time: Int64) {
    phase = directory.phase
    self.time = time
    let graph = WaitGraph(directory)
    let nodes = directory.nodes
    var found = graph.cycles.map { Diagnosis(node: $0[0], cause: .cycle($0), severity: .failure) }
    for node in nodes {
      guard let (cause, severity) = Self.rootCause(node, graph, directory, at: time) else {
        continue
      }
      found.append(Diagnosis(node: node.name, cause: cause, severity: severity))
    }
    for index in found.indices { found[index].blocked = graph.blocked(by: found[index]) }
    for node in nodes { found += Self.incidents(of: node, at: time) }
    found += Self.nearlyFullDisks(of: nodes)
    diagnoses = Diagnosis.Severity.allCases.flatMap { severity in
      found.filter { $0.severity == severity }
    }
  }

  /// Returns the reason why a node does not work, with its severity; `nil` if the node works or
  /// waits for another node.
  private static func rootCause(
    _ node: NodeInformation, _ graph: WaitGraph, _ directory: TopologyDirectory, at time: Int64
  ) -> (Diagnosis.Cause, Diagnosis.Severity)? {
    let blocks = graph.isAwaited(node.name)
    guard !graph.isWaiting(node.name) else { return nil }
    guard node.isRunning else {
      // Composites with the same coordinator share its process, so only the first composite is
      // reported.
      guard blocks || graph.isFirstOfProcess(node) else { return nil }
      // An embedded coordinator starts again together with its carrier node, which has its own
      // diagnosis.
      if let carrier = node.within.flatMap({ directory[node: $0] }), !carrier.isRunning, !blocks {
        return nil
      }
      let severity: Diagnosis.Severity? =
        switch node.phase {
        case "failed", "lost": .failure
        case "stopped": blocks ? .failure : .warning
        case "completed": blocks ? .failure : nil
        case "idle" where directory.phase == "starting": nil
        case "idle": blocks ? .failure : nil
        case "backing off": .warning
        default: directory.phase == "running" ? (blocks ? .warning : .note) : nil
        }
      return severity.map { (.notRunning(phase: node.phase, reason: node.reason), $0) }
    }
    guard blocks else { return nil }
    if graph.hasDoubts(about: node.name) {
      let since = graph.oldestDoubt(about: node.name) ?? time
      return age(since, at: time) < normalWaitLimit ? nil : (.undecided, .failure)
    }
    // If the node has changed its state recently, the full pipe is only back-pressure.
    let activity = Diagnosis.Activity(node, at: time)
    if let age = activity.age, age < normalWaitLimit { return nil }
    return (.notKeepingUp(activity), .warning)
  }

  /// Returns the diagnoses that concern only this node, and have no cause in other nodes.
  private static func incidents(of node: NodeInformation, at time: Int64) -> [Diagnosis] {
    var found: [Diagnosis] = []
    func add(_ cause: Diagnosis.Cause, _ severity: Diagnosis.Severity) {
      found.append(Diagnosis(node: node.name, cause: cause, severity: severity))
    }
    guard let status = node.status else { return [] }
    let lost = status.deadLettersLost ?? 0
    if status.deadLetters > 0 || lost > 0 {
      add(.deadLetters(count: status.deadLetters, lost: lost), .warning)
    }
    guard node.isRunning else { return found }
    if node.restarts > 0, let start = node.startedAt, age(start, at: time) < recentRestart {
      add(.restarted(count: node.restarts, age: age(start, at: time)), .note)
    }
    let activity = Diagnosis.Activity(node, at: time)
    if status.effects > 0, let age = activity.age, age >= longWait {
      add(.longEffects(activity), .note)
    }
    if let timer = status.timer, timer.remaining(at: time) >= longWait {
      add(.distantTimer(timer), .note)
    }
    return found
  }

  /// Returns a diagnosis for each disk that is nearly full, at the first node with a journal there.
  private static func nearlyFullDisks(of nodes: [NodeInformation]) -> [Diagnosis] {
    var disks: Set<[String]> = []
    return nodes.compactMap { node in
      guard node.isRunning, let disk = node.status?.journal?.disk, disk.isNearlyFull,
        disks.insert([node.hostName ?? "", String(disk.device)]).inserted
      else { return nil }
      return Diagnosis(node: node.name, cause: .nearlyFullDisk(disk), severity: .warning)
    }
  }

  private static func age(_ instant: Int64, at time: Int64) -> Duration {
    .nanoseconds(max(0, time - instant))
  }
}

extension TopologyHealth {
  /// The severity of the worst diagnosis; `nil` if nothing is wrong.
  package var severity: Diagnosis.Severity? {
    diagnoses.first.flatMap { $0.severity == .note ? nil : $0.severity }
  }

  /// The worst diagnosis as one line, or `all well`. Other diagnoses are only counted.
  package var summary: String {
    let worst = diagnoses.first?.text(at: time)
    let text =
      if severity != nil, let worst {
        worst
      } else if phase != "running" {
        phase
      } else {
        "all well" + (worst.map { "; \($0)" } ?? "")
      }
    let others = diagnoses.filter { $0.severity != .note }.dropFirst().count
    return others > 0 ? text + " (and \(others) more)" : text
  }

  /// The health as JSON.
  package var record: JSONValue {
    [
      "summary": .string(summary), "severity": .optional(severity?.rawValue),
      "diagnoses": .array(diagnoses.map { $0.record(at: time) }),
    ]
  }
}

extension Diagnosis.Activity {
  fileprivate init(_ node: NodeInformation, at time: Int64) {
    let status = node.status
    // The state of a node with instances is only the number of its instances.
    state =
      node.instanceField == nil
      ? status?.state.map { $0.caseName ?? $0.stateText(fields: node.stateFields) } : nil
    age = status?.since.map { .nanoseconds(max(0, time - $0)) }
    runningEffectCount = status?.effects ?? 0
    waitingEventCount = status?.ins.reduce(0) { $0 + $1.waiting } ?? 0
    timer = status?.timer
  }
}

/// A graph of the nodes that wait for other nodes.
struct WaitGraph {
  private let order: [String]
  private let firstOfProcess: Set<String>
  private var waits: [String: [Diagnosis.BlockedNode]] = [:]
  private var awaited: [String: [Diagnosis.BlockedNode]] = [:]
  /// The groups of nodes that wait for each other.
  private(set) var cycles: [[String]] = []

  init(_ directory: TopologyDirectory) {
    order = directory.nodes.map(\.name)
    var processes: Set<String> = []
    firstOfProcess = Set(
      directory.nodes.filter { processes.insert($0.inboxName).inserted }.map(\.name))
    let nodes = Dictionary(directory.nodes.map { ($0.name, $0) }) { first, _ in first }
    let pipes = Dictionary(directory.pipes.map { ($0.name, $0) }) { first, _ in first }
    for node in directory.nodes where node.isRunning {
      // The topology directory lists a participant's transactions in doubt a second time, in the
      // row of the composite.
      for doubt in node.doubts where doubt.participant == node.name {
        add(node.name, doubt.composite, .inDoubt(doubt))
      }
      // Composites of one coordinator share its counters.
      guard node.kind != .composite || firstOfProcess.contains(node.name) else { continue }
      for name in node.status?.blocked ?? [] {
        guard let pipe = pipes[name] else { continue }
        let end = node.status?.outs.first { $0.name == name }
        add(
          node.name, pipe.to,
          .fullPipe(
            name: name, underWay: end?.underWay ?? UInt64(max(0, pipe.capacity)),
            capacity: pipe.capacity))
      }
    }
    for node in directory.nodes where !node.isRunning && awaited[node.name] != nil {
      guard let carrier = node.within.flatMap({ nodes[$0] }), !carrier.isRunning else { continue }
      add(node.name, carrier.name, .carrier)
    }
    findCycles()
  }

  private mutating func add(
    _ node: String, _ target: String, _ reason: Diagnosis.BlockedNode.Reason
  ) {
    let blocked = Diagnosis.BlockedNode(node: node, target: target, reason: reason, distance: 1)
    waits[node, default: []].append(blocked)
    awaited[target, default: []].append(blocked)
  }

  func isWaiting(_ node: String) -> Bool { waits[node] != nil }
  func isAwaited(_ node: String) -> Bool { awaited[node] != nil }
  func isFirstOfProcess(_ node: NodeInformation) -> Bool { firstOfProcess.contains(node.name) }

  private func doubts(about composite: String) -> [InDoubtTransaction] {
    (awaited[composite] ?? []).compactMap {
      if case .inDoubt(let doubt) = $0.reason { doubt } else { nil }
    }
  }

  func hasDoubts(about composite: String) -> Bool { !doubts(about: composite).isEmpty }
  func oldestDoubt(about composite: String) -> Int64? {
    doubts(about: composite).map(\.since).min()
  }

  /// Returns the nodes that wait for a root cause, directly or through other nodes, nearest first.
  func blocked(by diagnosis: Diagnosis) -> [Diagnosis.BlockedNode] {
    var frontier = [diagnosis.node]
    if case .cycle(let nodes) = diagnosis.cause { frontier = nodes }
    var seen = Set(frontier)
    var found: [Diagnosis.BlockedNode] = []
    var distance = 1
    while !frontier.isEmpty {
      var next: [String] = []
      for target in frontier {
        for var blocked in awaited[target] ?? [] where seen.insert(blocked.node).inserted {
          blocked.distance = distance
          found.append(blocked)
          next.append(blocked.node)
        }
      }
      frontier = next
      distance += 1
    }
    return found
  }

  /// Finds the cycles: a node is in a cycle if it waits for itself through other nodes. Of several
  /// cycles that share nodes, one is reported.
  private mutating func findCycles() {
    var reported: Set<String> = []
    for start in order where waits[start] != nil && !reported.contains(start) {
      guard let cycle = shortestCycle(through: start), reported.isDisjoint(with: cycle) else {
        continue
      }
      reported.formUnion(cycle)
      cycles.append(cycle)
    }
  }

  private func shortestCycle(through start: String) -> [String]? {
    var origins: [String: String] = [:]
    var frontier = [start]
    while !frontier.isEmpty {
      var next: [String] = []
      for node in frontier {
        for wait in waits[node] ?? [] {
          if wait.target == start {
            var path = [node]
            while let last = path.last, last != start, let origin = origins[last] {
              path.append(origin)
            }
            return path.reversed()
          }
          guard wait.target != start, origins[wait.target] == nil else { continue }
          origins[wait.target] = node
          next.append(wait.target)
        }
      }
      frontier = next
    }
    return nil
  }
}
