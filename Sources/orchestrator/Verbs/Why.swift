import PipeRuntime

/// The verb `orchestrator why`.
struct Why: Verb {
  let description = VerbDescription(
    "why", "Shows why a topology or a node makes no progress",
    discussion:
      "Asks the nodes, and changes nothing. Without NODE, shows the root cause of each problem of "
      + "the topology, and the nodes that it blocks. With NODE, shows which events are enabled, and "
      + "which nodes block the other events. A synchronized event is enabled if all its "
      + "participants accept it. If a guard depends on the values of an event, give EVENT with "
      + "values. For an asynchronous transition, only sending the event shows whether it is "
      + "accepted. Exit codes with EVENT: 0, enabled or ignored; 4, blocked; 5, the answer depends on "
      + "the event's values, or on an asynchronous transition.",
    options: [
      .topology, .output,
      Option(
        "timeout", value: .duration, "Maximum time to wait for each node. Default: 2s"),
    ],
    positionals: [
      Positional(
        "NODE", .nodeOrInstance, .optional,
        "The node, composite or instance NODE[KEY]. Default: the whole topology"),
      Positional(
        "EVENT", .event, .optional,
        "Shows one event in detail: a label, or JSON. Default: all"),
    ],
    examples: [
      ("orchestrator why", "Shows what is wrong, and how to repair it"),
      ("orchestrator why door", "Shows for every event of the door whether it is enabled"),
      ("orchestrator why lift open", "Shows which nodes block 'open', in which state, and why"),
      (
        "orchestrator why lift '{\"go\":{\"floor\":3}}' && echo accepted",
        "Checks an event with values, in a script"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    guard let name = arguments.positionals.first else {
      let directory = try await arguments.onTopology { try await $0.directory() }
      let health = TopologyHealth(directory, at: WallClock.nanoseconds)
      let lines = console.style.lines(
        of: health, topology: directory.topology, includingNotes: true)
      try console.print(health.record, as: arguments.format, lines: lines)
      return .success
    }
    let timeout = arguments.duration("timeout") ?? .seconds(2)
    let event = try arguments.positionals.dropFirst().first.map {
      try CaseArgument.parse($0, noun: "event")
    }
    let found = try await arguments.onTopology { topology in
      if let event { return try await topology.why(name, json: event, timeout: timeout) }
      return try await topology.enabledEvents(of: name, timeout: timeout)
    }
    let report = EnabledReport(enabledEvents: found)
    switch arguments.format {
    case .text:
      let lines = event == nil ? report.lines(console.style) : report.detailLines(console.style)
      for line in lines { try console.print(line) }
    case .json: try console.print(report.record)
    case .jsonl: for record in report.records { try console.print(record) }
    }
    return event == nil ? .success : Self.code(of: found.verdict)
  }

  private static func code(of verdict: EventEnabledness.Verdict) -> ExitCode {
    switch verdict {
    case .enabled, .ignored: .success
    case .blocked: .notEnabled
    case .dependsOnValue, .undetermined: .dependsOnValue
    }
  }
}

/// The output of `why` for one node or composite.
struct EnabledReport {
  let enabledEvents: EnabledEvents

  /// Returns a heading, and a table of all events.
  func lines(_ style: Style) -> [String] {
    guard !enabledEvents.events.isEmpty else {
      return headingLines(style) + ["  accepts no events"]
    }
    var table = Table(
      .init("EVENT"), .init("ENABLED"), .init("TAKEN BY"), .init("BECAUSE"))
    for event in enabledEvents.events {
      table.add(
        event.event.signature, event.verdict.wording, participantsText(of: event),
        explanation(event, style))
    }
    return headingLines(style) + table.lines(style: style).map { "  " + $0 }
  }

  /// Returns a heading and, if a timer is running, a line about the timer that is due first.
  private func headingLines(_ style: Style) -> [String] {
    [heading(style)]
      + (enabledEvents.timer.map { ["  " + $0.text(at: WallClock.nanoseconds)] } ?? [])
  }

  /// Returns, for each event, the answers of all participants.
  func detailLines(_ style: Style) -> [String] {
    var lines: [String] = []
    for event in enabledEvents.events {
      let through = event.composite.map { " through composite \($0)" } ?? ""
      lines.append(
        "\(style.bold(enabledEvents.name)): \(event.event.signature)\(through): \(event.verdict.sentence)"
      )
      var table = Table(
        .init("PARTICIPANT"), .init("TAKES IT"), .init("STATE"), .init("VERSION", .right),
        .init("BECAUSE"))
      for answer in event.answers {
        table.add(
          answer.participant, answer.verdict.wording, state(of: answer) ?? "-",
          answer.version.map(String.init) ?? "-", answer.explanation(style.time))
      }
      lines += table.lines(style: style).map { "  " + $0 }
    }
    return lines
  }

  private func heading(_ style: Style) -> String {
    let state =
      enabledEvents.state.map {
        "  " + $0.stateText(fields: enabledEvents.stateFields[enabledEvents.name]).printable
      } ?? ""
    let version = enabledEvents.version.map { "  (version \($0))" } ?? ""
    return "\(style.bold(enabledEvents.name))  \(enabledEvents.kind.rawValue)\(state)\(version)"
  }

  /// Returns the participants of an event, such as `lift: door, motor` for an event of composite
  /// `lift`.
  private func participantsText(of event: EventEnabledness) -> String {
    let list = event.participants.joined(separator: ", ")
    guard let composite = event.composite, composite != enabledEvents.name else { return list }
    return "\(composite): \(list)"
  }

  private func state(of answer: EventEnabledness.Answer) -> String? {
    answer.state?.stateText(fields: enabledEvents.stateFields[answer.participant])
  }

  /// Returns the participants that block the event, each with its state and its reason.
  private func explanation(_ event: EventEnabledness, _ style: Style) -> String {
    event.answers.filter { $0.verdict != .enabled }.map { answer in
      let state = state(of: answer).map { " is in \($0)" } ?? ""
      let explanation = answer.explanation(style.time)
      return event.participants == [answer.participant]
        ? explanation : "'\(answer.participant)'\(state): \(explanation)"
    }.joined(separator: "; ")
  }

  // MARK: Reports as JSON

  /// The report as one JSON object.
  var record: JSONValue {
    [
      "name": .string(enabledEvents.name), "kind": .string(enabledEvents.kind.rawValue),
      "state": enabledEvents.state ?? .null,
      "version": enabledEvents.version.map { .count($0) } ?? .null,
      "events": .array(enabledEvents.events.map(\.record)),
      "timer": enabledEvents.timer?.record ?? .null,
    ]
  }

  /// A JSON object for each event.
  var records: [JSONValue] {
    enabledEvents.events.map { event in
      guard case .object(var record) = event.record else { return .null }
      record["name"] = .string(enabledEvents.name)
      return .object(record)
    }
  }
}

extension EventEnabledness {
  fileprivate var record: JSONValue {
    [
      "event": .string(event.name),
      "fields": .array(event.fields.map { ["name": .string($0.name), "type": .string($0.type)] }),
      "verdict": .string(verdict.rawValue), "composite": .optional(composite),
      "participants": .texts(participants),
      "answers": .array(answers.map(\.record)),
    ]
  }
}

extension EventEnabledness.Answer {
  func explanation(_ time: (Int64) -> String) -> String {
    if let blocker { return blocker.wording(of: time) }
    return switch verdict {
    case .dependsOnValue: "depends on the event's values"
    case .undetermined: "the transition is asynchronous; the answer is known only when it runs"
    case .ignored: "the node consumes the event, and nothing changes"
    case .enabled, .blocked: ""
    }
  }

  fileprivate var record: JSONValue {
    var record: [String: JSONValue] = [
      "participant": .string(participant), "verdict": .string(verdict.rawValue),
      "state": state ?? .null, "version": version.map { .count($0) } ?? .null,
      "reason": blocker.map { .string($0.code) } ?? .null,
      "because": .string(explanation { Timestamp(nanoseconds: $0).description }),
    ]
    switch blocker {
    case .inTransaction(let transaction): record["transaction"] = .string("\(transaction)")
    case .inDoubt(let doubt): record["doubt"] = doubt.record
    case .pipesFull(let names): record["pipes"] = .texts(names)
    case .refused(let refusal): record["error"] = refusal.error.map { .string($0) }
    case .inTransition, .notConnected, .down, .silent, .unreadable, nil: break
    }
    return .object(record)
  }
}

extension EventEnabledness.Verdict {
  fileprivate var wording: String {
    switch self {
    case .enabled: "yes"
    case .ignored: "ignored"
    case .blocked: "no"
    case .dependsOnValue: "by its values"
    case .undetermined: "unknown"
    }
  }

  fileprivate var sentence: String {
    switch self {
    case .enabled: "enabled"
    case .ignored: "ignored"
    case .blocked: "blocked"
    case .dependsOnValue: "depends on its values; give EVENT with values"
    case .undetermined: "the answer is known only when the transition runs"
    }
  }
}

extension InDoubtTransaction {
  /// The transaction as JSON. The time is formatted as text.
  var record: JSONValue {
    var record: [String: JSONValue] = [
      "participant": .string(participant), "composite": .string(composite),
      "event": .string(event), "transaction": .string("\(transaction)"),
      "since": .string(Timestamp(nanoseconds: since).description),
    ]
    if let otherInstances { record["otherInstances"] = .integer(Int64(otherInstances)) }
    return .object(record)
  }
}
