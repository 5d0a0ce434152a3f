import PipeRuntime

/// `orchestrator why`
struct Why: Verb {
  let description = VerbDescription(
    "why", "Shows which events are enabled, and which nodes block the others",
    discussion:
      "Asks the nodes without changing anything. A synchronized event is enabled if all its "
      + "participants accept it. If a guard depends on the values of an event, give EVENT "
      + "with values. Only a run can decide about an asynchronous transition. Exit code with "
      + "EVENT: 0 enabled, 4 blocked, 5 depends on its values, or only a run can decide.",
    options: [
      .topology, .output,
      Option(
        "timeout", value: .duration, "Maximum time to wait for each node. Default: 2s"),
    ],
    positionals: [
      Positional("NODE", .nodeOrInstance, .one, "The node, composite or instance NODE[KEY]"),
      Positional(
        "EVENT", .event, .optional,
        "Shows one event in detail: a label, or JSON. Default: all"),
    ],
    examples: [
      ("orchestrator why door", "Shows every event of the door, enabled or not"),
      ("orchestrator why lift open", "Shows which nodes block 'open', in which state, and why"),
      (
        "orchestrator why lift '{\"go\":{\"floor\":3}}' && echo it can",
        "Checks an event with values, in a script"
      ),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let name = arguments.positionals[0]
    let timeout = arguments.duration("timeout") ?? .seconds(2)
    let event = try arguments.positionals.dropFirst().first.map {
      try CaseArgument.parse($0, noun: "event")
    }
    let found = try await arguments.onTopology { topology in
      if let event { return try await topology.why(name, json: event, timeout: timeout) }
      return try await topology.enabledEvents(of: name, timeout: timeout)
    }
    let report = EnabledReport(found: found)
    switch arguments.format {
    case .text:
      let lines = event == nil ? report.lines(console.style) : report.details(console.style)
      for line in lines { try console.print(line) }
    case .json: try console.print(report.record)
    case .jsonl: for record in report.records { try console.print(record) }
    }
    return event == nil ? .success : Self.code(of: found.verdict)
  }

  private static func code(of verdict: EventEnabledness.Verdict) -> ExitCode {
    switch verdict {
    case .enabled: .success
    case .blocked: .notEnabled
    case .dependsOnValue, .undetermined: .dependsOnValue
    }
  }
}

/// The output of `why` for one node or composite.
struct EnabledReport {
  let found: EnabledEvents

  /// A heading, and a table of all events.
  func lines(_ style: Style) -> [String] {
    guard !found.events.isEmpty else { return [heading(style), "  accepts no events"] }
    var table = Table(
      .init("EVENT"), .init("ENABLED"), .init("TAKEN BY"), .init("BECAUSE"))
    for event in found.events {
      table.add(
        event.event.signature, event.verdict.wording, participantsText(of: event),
        explanation(event, style))
    }
    return [heading(style)] + table.lines(style: style).map { "  " + $0 }
  }

  /// The answers of all participants for each event.
  func details(_ style: Style) -> [String] {
    var lines: [String] = []
    for event in found.events {
      let through = event.composite.map { " through composite \($0)" } ?? ""
      lines.append(
        "\(style.bold(found.name)): \(event.event.signature)\(through): \(event.verdict.sentence)")
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
      found.state.map { "  " + $0.stateText(fields: found.stateFields[found.name]).printable } ?? ""
    let version = found.version.map { "  (version \($0))" } ?? ""
    return "\(style.bold(found.name))  \(found.kind.rawValue)\(state)\(version)"
  }

  /// `lift: door, motor`
  private func participantsText(of event: EventEnabledness) -> String {
    let list = event.participants.joined(separator: ", ")
    guard let composite = event.composite, composite != found.name else { return list }
    return "\(composite): \(list)"
  }

  private func state(of answer: EventEnabledness.Answer) -> String? {
    answer.state?.stateText(fields: found.stateFields[answer.participant])
  }

  /// Returns the participants that block the event, with their states and reasons.
  private func explanation(_ event: EventEnabledness, _ style: Style) -> String {
    event.answers.filter { $0.verdict != .enabled }.map { answer in
      let state = state(of: answer).map { " is in \($0)" } ?? ""
      let explanation = answer.explanation(style.time)
      return event.participants == [answer.participant]
        ? explanation : "'\(answer.participant)'\(state): \(explanation)"
    }.joined(separator: "; ")
  }

  // MARK: JSON

  /// The JSON form.
  var record: JSONValue {
    [
      "name": .string(found.name), "kind": .string(found.kind.rawValue),
      "state": found.state ?? .null, "version": found.version.map { .count($0) } ?? .null,
      "events": .array(found.events.map(\.record)),
    ]
  }

  /// An object for each event.
  var records: [JSONValue] {
    found.events.map { event in
      guard case .object(var record) = event.record else { return .null }
      record["name"] = .string(found.name)
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
    case .undetermined: "the transition is asynchronous; only a run can decide"
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
    case .blocked: "no"
    case .dependsOnValue: "by its values"
    case .undetermined: "unknown"
    }
  }

  fileprivate var sentence: String {
    switch self {
    case .enabled: "enabled"
    case .blocked: "blocked"
    case .dependsOnValue: "depends on its values; give EVENT with values"
    case .undetermined: "only a run can decide"
    }
  }
}

extension InDoubtTransaction {
  /// The JSON form, with the time as text.
  var record: JSONValue {
    [
      "participant": .string(participant), "composite": .string(composite),
      "event": .string(event), "transaction": .string("\(transaction)"),
      "since": .string(Timestamp(nanoseconds: since).description),
    ]
  }
}
