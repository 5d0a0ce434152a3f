import PipeRuntime

/// `orchestrator why`
struct Why: Verb {
  let description = VerbDescription(
    "why", "Tells which events are enabled now, and who withholds the others",
    discussion:
      "Asks the nodes what they would say; nothing changes by that. A synchronized event is enabled "
      + "where all its participants take it. A guard may decide by the values of an event: give "
      + "EVENT with them. Of an asynchronous transition only a run can tell. Exit code with EVENT: 0 "
      + "enabled, 4 withheld, 5 depends on its values, or only a run can tell.",
    options: [
      .topology, .output,
      Option(
        "timeout", value: .duration, "How long each node has to answer. Default: 2s"),
    ],
    positionals: [
      Positional("NODE", .node, .one, "The node, or the composite"),
      Positional(
        "EVENT", .event, .optional,
        "One event, in detail: a label, or JSON. Default: all"),
    ],
    examples: [
      ("orchestrator why door", "Every event of the door, enabled or not"),
      ("orchestrator why lift open", "Who lets the lift's door not open, in which state, and why"),
      (
        "orchestrator why lift '{\"go\":{\"floor\":3}}' && echo it can",
        "The same of an event with values, in a script"
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
    let page = EnabledPage(found: found)
    switch arguments.format {
    case .text:
      let lines = event == nil ? page.lines(console.style) : page.details(console.style)
      for line in lines { try console.print(line) }
    case .json: try console.print(page.record)
    case .jsonl: for record in page.records { try console.print(record) }
    }
    return event == nil ? .success : Self.code(of: found.verdict)
  }

  private static func code(of verdict: EventEnabledness.Verdict) -> ExitCode {
    switch verdict {
    case .enabled: .success
    case .withheld: .notEnabled
    case .dependsOnValue, .undetermined: .dependsOnValue
    }
  }
}
