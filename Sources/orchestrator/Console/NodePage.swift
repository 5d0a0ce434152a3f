import PipeRuntime

/// All that `describe` tells of one node.
struct NodePage {
  let node: NodeInformation
  /// `nil` where the node has not described itself.
  let machine: MachineDescription?
  /// The topology's pipes.
  let pipes: [PipeInformation]

  /// A heading, then a line or more for each thing that is known.
  func lines(_ style: Style) -> [String] {
    var parts = [
      (node.kind.rawValue, [node.hosts, node.program].compactMap(\.self).filter { !$0.isEmpty })
    ]
    if node.kind == .machine {
      parts.append(("durability", [node.durability.rawValue, node.journal].compactMap(\.self)))
    }
    if let machine { parts += Self.parts(of: machine) }
    parts.append(("in doubt", node.doubts.map { $0.wording(since: style.time) }))
    return [heading(style)] + style.lines(of: parts + traffic, labelWidth: 11)
  }

  /// `door  running  closed  (version 3)`
  func heading(_ style: Style) -> String {
    let state = node.stateText.isEmpty ? "" : "  " + node.stateText.printable
    let version = node.versionText.map { "  (\($0))" } ?? ""
    return "\(style.bold(node.name))  \(style.status(node.phase))\(state)\(version)"
  }

  /// What comes in and goes out.
  var traffic: [(String, [String])] {
    [
      ("pipes in", pipes.filter { $0.to == node.name }.map(inText)),
      ("pipes out", pipes.filter { $0.from == node.name }.map(outText)), ("letters", letters),
    ]
  }

  /// The JSON form.
  var record: JSONValue {
    [
      "node": .string(node.name),
      "description": machine.flatMap { try? JSONValue(encoding: $0) } ?? .null,
      "status": node.record(now: WallClock.nanoseconds),
    ]
  }

  private static func parts(of machine: MachineDescription) -> [(String, [String])] {
    let untaken = machine.events.filter { !machine.alphabet.contains($0.name) }
    return [
      ("problem", [machine.problem].compactMap(\.self)),
      ("initial", machine.initial == .null ? [] : [machine.stateText(machine.initial)]),
      ("states", machine.states.map(\.signature)),
      ("state", machine.stateFields.map { $0.map { "\($0.name): \($0.type)" } } ?? []),
      ("events", machine.events.filter { machine.alphabet.contains($0.name) }.map(\.signature)),
      ("never takes", untaken.map(\.signature)),
      ("outputs", machine.outputs.map(\.signature)),
      ("in-ports", machine.inPorts.map { "\($0.name): \($0.eventType)" }),
      ("out-ports", machine.outPorts.map { "\($0.name): \($0.eventType)" }),
    ]
  }

  private func inText(_ pipe: PipeInformation) -> String {
    guard let end = node.status?.ins.first(where: { $0.name == pipe.name }) else {
      return pipe.name
    }
    return "\(pipe.name)  \(end.events) received, \(end.applied) applied, \(end.waiting) waiting, "
      + "capacity \(end.capacity)"
  }

  private func outText(_ pipe: PipeInformation) -> String {
    guard let end = node.status?.outs.first(where: { $0.name == pipe.name }) else {
      return pipe.name
    }
    let isFull = node.status?.blocked.contains(pipe.name) == true
    return "\(pipe.name)  \(end.events) sent, \(end.applied) applied, \(end.waiting) waiting, "
      + "capacity \(end.capacity)" + (isFull ? ", full" : "")
      + [(end.lost, "lost"), (end.unsendable, "not sendable")].compactMap { count, what in
        count.flatMap { $0 > 0 ? ", \($0) \(what)" : nil }
      }.joined()
  }

  private var letters: [String] {
    guard let status = node.status, status.letters > 0 || status.lettersLost != nil else {
      return []
    }
    let lost = status.lettersLost.map { ", and \($0) lost, since a node keeps no more" } ?? ""
    return ["\(status.letters)\(lost)" + (status.letters > 0 ? ", of which the last:" : "")]
      + status.recentLetters.map {
        "\($0.pipe) \($0.sequence): \($0.event.caseText): \($0.reason)"
      }
  }
}

extension NodeInformation {
  /// `version 12`, where it has a state.
  var versionText: String? {
    guard let status, status.state != nil else { return nil }
    return "version \(status.version)"
  }

  /// `door: running, pid 12`
  var line: String {
    "\(name): \(phase)" + (pid.map { ", pid \($0)" } ?? "")
  }
}
