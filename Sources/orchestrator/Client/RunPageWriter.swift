import PipeModelChecker
import PipeRuntime
import PipeSupervision
import PipeSupport

/// Writes a recorded run as lines of JSON for the inspector, which serves its page.
///
/// The lines of steps, refused events, and starts and ends of processes are in the order of the
/// replay. A line for each node with its last state follows, and a ``RunPageSummary``.
struct RunPageWriter {
  /// The last known values of a node.
  private struct Node {
    var state: [UInt8] = []
    var version: UInt64 = 0
    var incarnation: UInt64 = 0
    var time: Int64 = 0
    var cause = ""
    var starts: UInt64 = 0
    var phase = "running"
    var reason: String?
    /// Whether the log of the process has no graceful end.
    var isCutOff = false
    /// The beginning of the process, until the next line of the log shows whether the entry into the
    /// initial state has sent events.
    var beginning: RunReplay.Step?

    mutating func take(_ step: RunReplay.Step) {
      (state, version, time, cause) = (step.state, step.version, step.time, step.cause)
    }

    /// The node's status as members of a JSON object.
    var status: String {
      let reason = reason.map { "\(JSONValue.string($0).text)" } ?? "null"
      return #""incarnation":\#(incarnation),"phase":"\#(phase)","running":\#(phase == "running"),"#
        + #""restarts":\#(starts == 0 ? 0 : starts - 1),"reason":\#(reason)"#
    }
  }

  private let run: RecordedRun
  private let loaded: LoadedTopology
  private var nodes: [String: Node] = [:]
  private var lastTime: Int64

  private static let cutOffReason =
    "the log has no graceful end: the process was killed, or the recording ended before it"
  private static let replacedReason =
    "the former process has not ended gracefully: it was killed or crashed at an unknown time"

  init(_ run: RecordedRun, _ loaded: LoadedTopology) {
    self.run = run
    self.loaded = loaded
    lastTime = run.description.started
  }

  /// Writes all lines.
  /// - Parameter print: Writes one line.
  mutating func write(_ replay: RunReplay, print: (String) throws -> Void) throws {
    while let step = try replay.next() {
      for line in beginningLines(before: step) + take(step) {
        try print(String(decoding: line, as: UTF8.self))
      }
    }
    for line in cutOffLines() { try print(String(decoding: line, as: UTF8.self)) }
    for (name, node) in nodes.sorted(by: { $0.key < $1.key }) where !node.state.isEmpty {
      var line = Array(#"{"is":"state","node":"\#(name)","incarnation":\#(node.incarnation)"#.utf8)
      line += #","version":\#(node.version),"time":\#(node.time),"cause":"#.utf8
      line += JSONValue.string(node.cause).bytes
      line += #","state":"#.utf8
      line += node.state + [UInt8(ascii: "}")]
      try print(String(decoding: line, as: UTF8.self))
    }
    try print(try JSONValue(encoding: summary(replay)).text)
  }

  /// Returns the line of the beginning of a process, if the next line of the process is not about the
  /// events of the initial state. That line also shows the beginning.
  private mutating func beginningLines(before step: RunReplay.Step) -> [[UInt8]] {
    guard let beginning = nodes[step.node]?.beginning else { return [] }
    nodes[step.node]?.beginning = nil
    return step.kind == .initialSends ? [] : [Self.line(beginning, from: [])]
  }

  private mutating func take(_ step: RunReplay.Step) -> [[UInt8]] {
    var node = nodes[step.node] ?? Node()
    defer { nodes[step.node] = node }
    lastTime = max(lastTime, step.time)
    switch step.kind {
    case .step:
      let line = Self.line(step, from: node.state)
      node.take(step)
      return [line]
    case .refusal: return [Self.line(step, from: [])]
    case .initialSends: return [Self.line(step, from: [])]
    case .ignored: return step.details.isEmpty ? [] : [Self.ignored(step)]
    case .beginning:
      let former = node
      node.starts += 1
      (node.incarnation, node.isCutOff) = (step.incarnation, false)
      (node.phase, node.reason) = ("running", former.isCutOff ? Self.replacedReason : nil)
      let isSame = former.starts > 0 && former.state == step.state && former.version == step.version
      if !isSame {
        node.take(step)
        node.beginning = step
      }
      if former.starts == 0 { return [] }
      return [Self.life(of: step.node, at: step.time, node, former: former)]
    case .end(isGraceful: false):
      node.isCutOff = true
      return []
    case .end(isGraceful: true):
      let former = node
      (node.phase, node.reason) = ("ended", nil)
      return [Self.life(of: step.node, at: step.time, node, former: former)]
    }
  }

  /// Returns the lines about the processes whose logs have no graceful end, at the end of the run.
  private mutating func cutOffLines() -> [[UInt8]] {
    nodes.filter(\.value.isCutOff).sorted { $0.key < $1.key }.map { name, former in
      var node = former
      (node.phase, node.reason) = ("cut off", Self.cutOffReason)
      nodes[name] = node
      return Self.life(of: name, at: lastTime, node, former: former)
    }
  }

  /// Returns a step as the feed of a node reports it.
  private static func line(_ step: RunReplay.Step, from state: [UInt8]) -> [UInt8] {
    var text = Array(#"{"node":"\#(step.node)","incarnation":\#(step.incarnation)"#.utf8)
    text += #","version":\#(step.version),"time":\#(step.time)"#.utf8
    if step.kind == .step { text += #","index":\#(step.index)"#.utf8 }
    text += step.details
    text += #","cause":"#.utf8
    text += JSONValue.string(step.cause).bytes
    if !state.isEmpty {
      text += #","from":"#.utf8
      text += state
    }
    if !step.state.isEmpty {
      text += #","state":"#.utf8
      text += step.state
    }
    return text + [UInt8(ascii: "}")]
  }

  /// Returns a line about the beginning or the end of a process. If the time at which the former
  /// process ended is unknown, its end and the beginning of the next process are one line: `again`.
  private static func life(
    of name: String, at time: Int64, _ node: Node, former: Node
  ) -> [UInt8] {
    Array(
      (#"{"is":"life","node":"\#(name)","time":\#(time),"#
        + #""again":\#(former.isCutOff && !node.isCutOff),"#
        + #"\#(node.status),"former":{\#(former.status)}}"#).utf8)
  }

  /// Returns a line about an ignored event, which counts as an applied event of its pipe.
  private static func ignored(_ step: RunReplay.Step) -> [UInt8] {
    Array(#"{"is":"ignored","node":"\#(step.node)","time":\#(step.time)"#.utf8) + step.details
      + [UInt8(ascii: "}")]
  }

  // MARK: The summary

  private func summary(_ replay: RunReplay) -> RunPageSummary {
    RunPageSummary(
      run: run.directory, started: run.description.started, ended: lastTime,
      notes: notes(replay),
      composites: loaded.conflictClasses.flatMap(\.composites).map {
        RunPageSummary.Composite(name: $0.name, nodes: $0.nodes)
      }, directory: directory)
  }

  private func notes(_ replay: RunReplay) -> [RunPageSummary.Note] {
    var notes = replay.nodesWithoutLog.map {
      RunPageSummary.Note(node: $0, text: "node '\($0)' has no log")
    }
    notes += replay.tornLines.map {
      RunPageSummary.Note(
        node: String($0.prefix { $0 != "." }), text: "left out as incomplete: \($0)")
    }
    notes += replay.gaps.map {
      RunPageSummary.Note(node: String($0.prefix { $0 != "@" }), text: $0)
    }
    notes += replay.differences.map { RunPageSummary.Note(node: $0.node, text: $0.wording) }
    let changed = loaded.changedPrograms(since: run.description)
    if !replay.differences.isEmpty, !changed.isEmpty {
      notes.append(RunPageSummary.Note(node: "", text: RunReplay.wording(changedPrograms: changed)))
    }
    return notes
  }

  private var directory: TopologyDirectory {
    let topology = loaded.topology
    var found = topology.nodes.map { node in
      information(node.name, node.constant == nil ? .machine : .constant, node.machine)
    }
    found += loaded.conflictClasses.flatMap(\.composites)
      .map { information($0.name, .composite, nil) }
    found += topology.monitors.map { information($0.name, .monitor, $0.monitor) }
    return TopologyDirectory(
      topology: run.description.topology, file: run.description.file, pid: 0, phase: "recorded",
      isRunning: false, nodes: found,
      pipes: loaded.pipes.map {
        PipeInformation(name: $0.name, from: $0.sender, to: $0.receiver, capacity: $0.capacity)
      })
  }

  private func information(
    _ name: String, _ kind: NodeInformation.Kind, _ machine: String?
  ) -> NodeInformation {
    let node = nodes[name]
    var information = NodeInformation(
      name: name, kind: kind, hosts: machine, program: "", phase: node?.phase ?? "not recorded",
      isRunning: false, inbox: "", feed: "",
      durability: kind == .machine ? loaded.topology.durability(of: name) : .volatile)
    information.incarnation = node?.incarnation ?? 0
    information.restarts = node.map { $0.starts - 1 } ?? 0
    information.reason = node?.reason
    return information
  }
}

extension RunReplay.Difference {
  /// A sentence about the difference.
  var wording: String {
    "node '\(node)' first differs from the run at \(node)@\(version) (\(file):\(line)): \(message)"
  }
}

extension RunReplay {
  /// A sentence about programs that are of another build than in the run.
  static func wording(changedPrograms: [String]) -> String {
    "the run was recorded with another build of program "
      + changedPrograms.map { "'\($0)'" }.joined(separator: ", ")
  }
}
