import PipeModelChecker
import PipeRuntime
import PipeSupport
import PipeTopology

/// The verb `orchestrator replay`.
struct ReplayRun: Verb {
  let description = VerbDescription(
    "replay", "Shows the steps of a recorded run, and the states of its nodes",
    discussion:
      "The programs of the topology compute the states of the run again; no node runs. The steps "
      + "are sorted so that each event is sent before it is consumed. Shows each step. With --to, "
      + "--until or --break, shows the states of all nodes at that point of the run, or with "
      + "'-o jsonl' the steps up to that point. Exit code 1: the run does not have this point. "
      + "2: DIR is not a recorded run.",
    options: [
      .output,
      Option("to", value: .text("NODE@VERSION"), "Shows the states after this step"),
      Option(
        "until", value: .duration, "Shows the states at this time after the start of the recording"),
      Option(
        "break", value: .text("NODE=STATE"),
        "Shows the states after the first step that leads the node to this state"),
      Option(
        "page",
        "Writes what 'orchestrator web DIR' shows, as lines of JSON; the inspector reads them"),
    ],
    positionals: [Positional("DIR", .directory, .one, "The directory of the run")],
    examples: [
      ("orchestrator replay run1", "Shows each step of the run"),
      ("orchestrator replay run1 --to door@12", "Shows the states after step 12 of the door"),
      ("orchestrator replay run1 --break door=open", "Shows the states when the door first opens"),
      ("orchestrator replay run1 -o jsonl", "Writes each step as a line of JSON"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let replay: RunReplay
    let place: ReplayPlace?
    let isPage = arguments.contains(option: "page")
    do {
      let run = try RecordedRun(readingFrom: arguments.positionals[0])
      place = try ReplayPlace(arguments, start: run.description.started)
      let loaded = try RunConformance.topology(of: run)
      try place?.check(loaded.topology.nodes.map(\.name))
      replay = try RunReplay(run, loaded, isDetailed: isPage)
      if isPage {
        if let place { throw UsageError.conflict("--page", "--\(place.option)") }
        var writer = RunPageWriter(run, loaded)
        try writer.write(replay) { try console.print($0) }
        return .success
      }
      report(replay, loaded.changedPrograms(since: run.description), console)
    } catch let error as RecordedRunError {
      throw CommandError("\(error)", code: .usage)
    }
    var states: [String: RunReplay.Step] = [:]
    var last: RunReplay.Step?
    while let step = try replay.next() {
      if place?.isBefore(step) == true { break }
      states[step.node] = step
      last = step
      if place == nil && arguments.format != .json || arguments.format == .jsonl {
        try show(step, as: arguments.format, console)
      }
      if place?.isReached(by: step) == true {
        try show(states, at: step, as: arguments.format, console)
        return .success
      }
    }
    guard let place else {
      if arguments.format == .json, let last { try show(states, at: last, as: .json, console) }
      return .success
    }
    guard place.isTime, let last else {
      throw CommandError("the run has no step with \(place.text)", code: .failure)
    }
    try show(states, at: last, as: arguments.format, console)
    return .success
  }

  /// Reports, for each node, the first step at which its present program differs from the run.
  private func report(_ replay: RunReplay, _ changed: [String], _ console: Console) {
    for difference in replay.differences {
      console.note(difference.wording)
    }
    guard !replay.differences.isEmpty, !changed.isEmpty else { return }
    console.note(RunReplay.wording(changedPrograms: changed))
  }

  private func show(
    _ step: RunReplay.Step, as format: OutputFormat, _ console: Console
  ) throws {
    let json = String(decoding: step.json, as: UTF8.self)
    guard format == .text else { return try console.print(json) }
    let record = try JSONValue(parsing: json.utf8)
    var text = "\(Timestamp(nanoseconds: step.time)) \(step.node)@\(step.version): "
    if step.isBeginning { text += "process \(step.incarnation) begins: " }
    if let event = record["event"] { text += "\(event.stateText(fields: nil)) -> " }
    text += Self.text(of: step.state)
    try console.print(text.printable)
  }

  private func show(
    _ states: [String: RunReplay.Step], at step: RunReplay.Step, as format: OutputFormat,
    _ console: Console
  ) throws {
    let members = try states.mapValues { own in
      JSONValue.object([
        "version": .count(own.version),
        "state": own.state.isEmpty ? .null : try JSONValue(parsing: own.state),
      ])
    }
    let record: JSONValue = .object([
      "node": .string(step.node), "version": .count(step.version), "time": .integer(step.time),
      "states": .object(members),
    ])
    let width = states.keys.map(\.count).max() ?? 0
    try console.print(
      record, as: format,
      lines: [
        "after \(step.node)@\(step.version) (\(step.file):\(step.line)), "
          + "\(Timestamp(nanoseconds: step.time)):"
      ]
        + states.sorted { $0.key < $1.key }.map { name, own in
          let padding = String(repeating: " ", count: width - name.count)
          return "  \(name)\(padding)  \(Self.text(of: own.state))  (version \(own.version))"
            .printable
        })
  }

  private static func text(of state: [UInt8]) -> String {
    (try? JSONValue(parsing: state).stateText(fields: nil)) ?? "an unknown state"
  }
}

/// A place in a recorded run.
private enum ReplayPlace {
  case step(node: String, version: UInt64)
  /// A time. Unit: nanoseconds since 1970.
  case time(Int64)
  case state(NodeCondition)

  /// Reads the options; `nil` if the command line names no place.
  init?(_ arguments: ParsedArguments, start: Int64) throws {
    let given = ["to", "until", "break"].filter { arguments.value($0) != nil }
    guard given.count <= 1 else {
      throw CommandError("give only one of --\(given.joined(separator: " and --"))", code: .usage)
    }
    if let text = arguments.value("to") {
      let parts = text.split(separator: "@", omittingEmptySubsequences: false)
      guard parts.count == 2, !parts[0].isEmpty, let version = UInt64(parts[1]) else {
        throw CommandError(
          "'\(text)' is not NODE@VERSION; write a node and a version, such as 'door@12'",
          code: .usage)
      }
      self = .step(node: String(parts[0]), version: version)
    } else if let duration = arguments.duration("until") {
      self = .time(start + duration.clampedNanoseconds)
    } else if let text = arguments.value("break") {
      self = .state(try NodeCondition(text))
    } else {
      return nil
    }
  }

  private var node: String? {
    switch self {
    case .step(let node, _): node
    case .state(let condition): condition.node
    case .time: nil
    }
  }

  func check(_ nodes: [String]) throws(CommandError) {
    guard let node, !nodes.contains(node) else { return }
    throw CommandError(
      "the run has no node '\(node)'; its nodes are \(nodes.joined(separator: ", "))",
      code: .usage)
  }

  var isTime: Bool { if case .time = self { true } else { false } }

  /// Returns whether the place is a time before a step.
  func isBefore(_ step: RunReplay.Step) -> Bool {
    if case .time(let time) = self { step.time > time } else { false }
  }

  /// Returns whether the place is directly after a step.
  func isReached(by step: RunReplay.Step) -> Bool {
    switch self {
    case .step(let node, let version):
      return step.node == node && step.version == version && !step.isBeginning
    case .state(let condition):
      guard step.node == condition.node, let state = try? JSONValue(parsing: step.state) else {
        return false
      }
      return condition.state.matches(state)
    case .time: return false
    }
  }

  /// The option that names the place.
  var option: String {
    switch self {
    case .step: "to"
    case .time: "until"
    case .state: "break"
    }
  }

  /// The place as a part of a message.
  var text: String {
    switch self {
    case .step(let node, let version): "\(node)@\(version)"
    case .time: "a time"
    case .state(let condition): "\(condition.node)=\(condition.state)"
    }
  }
}
