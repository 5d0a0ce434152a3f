import PipeRuntime

/// The verb `orchestrator pipe`.
struct Pipe: Verb {
  enum Action: String, CaseIterable {
    case ls, info, hz, echo, send
  }

  let description = VerbDescription(
    "pipe", "Lists pipes, shows their configuration, rate and events, or sends an event",
    discussion:
      "PIPE is the number of a pipe in 'pipe ls', or the name of the pipe, in quotes because "
      + "names contain '>'. The counts are exact: they come from the counters of the sender "
      + "and the receiver. Reading them does not delay events. UNDER WAY is the number of "
      + "events that were sent and are not applied yet. 'hz' repeatedly prints how many events "
      + "per second are sent and applied, for one pipe or for all pipes. 'echo' prints the "
      + "events that are sent through the pipe, up to 2,000 per second, and the number of "
      + "skipped events. 'send' sends an event to the receiver of the pipe and prints the "
      + "outcome; this event is not counted as an event of the pipe.",
    options: [
      .topology, .output,
      Option("quiet", "q", "With 'ls': prints only the names of the pipes"),
      Option("every", value: .duration, "With 'hz': the time between two readings. Default: 1s"),
      Option(
        "count", "n", value: .count("N", from: 1),
        "With 'hz': the number of readings. With 'echo': the number of events. Default: no limit"),
      Option(
        "timeout", value: .duration,
        "With 'hz' and 'echo': exits after this time. Default: no limit. With 'send': "
          + "maximum time to wait for the answer. Default: 5s"),
    ],
    positionals: [
      Positional(
        "ls|info|hz|echo|send", .choice("ACTION", Action.allCases.map(\.rawValue)), .one,
        "The action"),
      Positional("PIPE", .text("PIPE"), .optional, "The name or number of the pipe"),
      Positional("EVENT", .text("EVENT"), .optional, "With 'send': the event, a label or JSON"),
    ],
    examples: [
      (
        "orchestrator pipe ls", "Lists the number, event counts and problems of each pipe"
      ),
      ("orchestrator pipe info 1", "Shows all details of the first pipe"),
      (
        "orchestrator pipe hz 'door.arrivals->display.updates'",
        "Prints the events per second of a pipe, every second"
      ),
      (
        "orchestrator pipe echo 1 -n 10 -o jsonl",
        "Writes the next ten events, one JSON object per line"
      ),
      ("orchestrator pipe send 2 start", "Sends an event to the receiver of the second pipe"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let action = Action(rawValue: arguments.positionals[0]) ?? .ls
    let pipe = arguments.positionals.dropFirst().first
    try check(action, arguments)
    switch (action, pipe) {
    case (.ls, _): return try await list(arguments, console)
    case (.hz, _): return try await rates(of: pipe, arguments, console)
    case (.info, let pipe?): return try await showDetails(pipe, arguments, console)
    case (.echo, let pipe?): return try await follow(pipe, arguments, console)
    case (.send, let pipe?): return try await send(into: pipe, arguments, console)
    case (_, nil):
      throw Self.usage(
        "'\(action.rawValue)' requires a PIPE; 'orchestrator pipe ls' lists all pipes")
    }
  }

  private func check(_ action: Action, _ arguments: ParsedArguments) throws(CommandError) {
    let words = arguments.positionals
    let maximumCount = [.ls: 1, .send: 3][action] ?? 2
    if words.count > maximumCount {
      throw Self.usage("'\(action.rawValue)': unexpected argument '\(words[maximumCount])'")
    }
    if action == .send, words.count < 3 { throw Self.usage("'send' requires a PIPE and an EVENT") }
    let allowedActions: [String: [Action]] = [
      "quiet": [.ls], "every": [.hz], "count": [.hz, .echo], "timeout": [.hz, .echo, .send],
    ]
    for (option, actions) in allowedActions.sorted(by: { $0.key < $1.key })
    where arguments.contains(option: option) && !actions.contains(action) {
      let names = actions.map { "'\($0.rawValue)'" }.joined(separator: ", ")
      throw Self.usage("--\(option) is only for \(names)")
    }
  }

  private static func usage(_ problem: String) -> CommandError {
    CommandError(problem + "\nTry 'orchestrator pipe --help'.", code: .usage)
  }

  // MARK: Lists and details of pipes

  private func list(_ arguments: ParsedArguments, _ console: Console) async throws -> ExitCode {
    let snapshots = try await arguments.onTopology { try await $0.directory() }.pipeSnapshots
    if arguments.contains(option: "quiet") {
      for snapshot in snapshots { try console.print(snapshot.pipe.name) }
      return .success
    }
    try console.print(snapshots.map(\.record), as: arguments.format) {
      PipeSnapshot.table(snapshots)
    }
    return .success
  }

  private func showDetails(
    _ pipe: String, _ arguments: ParsedArguments, _ console: Console
  ) async throws -> ExitCode {
    let (snapshot, machine) = try await arguments.onTopology { topology in
      let snapshot = try await topology.directory().pipeSnapshot(pipe)
      let isNode = snapshot.receiver.map { $0.kind != .composite } ?? false
      // If the receiver has not described itself yet, its events are omitted.
      return (snapshot, isNode ? try? await topology.describe(snapshot.pipe.to) : nil)
    }
    let events = machine.map { machine in
      machine.events.filter { machine.alphabet.contains($0.name) }.map(\.signature)
    }
    try console.print(
      snapshot.record, as: arguments.format,
      lines: snapshot.lines(events: events ?? [], console.style))
    return .success
  }

  // MARK: Rates and events of pipes

  private func rates(
    of pipe: String?, _ arguments: ParsedArguments, _ console: Console
  ) async throws -> ExitCode {
    let interval = max(arguments.duration("every") ?? .seconds(1), .milliseconds(50))
    let deadline = arguments.duration("timeout").map { ContinuousClock.now + $0 }
    var remaining = arguments.countValue("count") ?? .max
    let client = try TopologyClient.attach(to: arguments.target)
    defer { client.close() }
    func read() async throws -> [PipeSnapshot] {
      let directory = try await client.directory()
      return try pipe.map { [try directory.pipeSnapshot($0)] } ?? directory.pipeSnapshots
    }
    var before = try await read()
    var nextTime = ContinuousClock.now
    var records: [JSONValue] = []
    while remaining > 0 {
      nextTime = max(nextTime + interval, .now)
      if let deadline, deadline < nextTime { break }
      guard case .timedOut = console.wait(for: [], until: nextTime) else { return .success }
      let now = try await read()
      let rates = now.compactMap { now in
        before.first { $0.pipe.name == now.pipe.name }.map { PipeRate(from: $0, to: now) }
      }
      before = now
      let width = rates.map(\.snapshot.pipe.name.displayWidth).max() ?? 0
      remaining -= 1
      for rate in rates {
        switch arguments.format {
        case .text: try console.print(rate.line(nameWidth: width, console.style))
        case .jsonl: try console.print(rate.record)
        case .json: records.append(rate.record)
        }
      }
      try console.flush()
      if rates.isEmpty { throw CommandError("topology '\(client.topology)' has no pipes") }
    }
    if arguments.format == .json { try console.print(.array(records)) }
    return .success
  }

  private func follow(
    _ pipe: String, _ arguments: ParsedArguments, _ console: Console
  ) async throws -> ExitCode {
    let client = try TopologyClient.attach(to: arguments.target)
    defer { client.close() }
    let directory = try await client.directory(fresh: false)
    let snapshot = try directory.pipeSnapshot(pipe)
    let lines = StreamPrinter(arguments, [snapshot.sender].compactMap(\.self), console)
    let code = try lines.write(try await client.tap(snapshot.pipe.name))
    if let loss = client.connectionLossError { throw loss }
    return code
  }

  private func send(
    into pipe: String, _ arguments: ParsedArguments, _ console: Console
  ) async throws -> ExitCode {
    let receiver = try await arguments.onTopology {
      try await $0.directory(fresh: false).pipeSnapshot(pipe).pipe.to
    }
    var sendArguments = arguments
    sendArguments.positionals = [receiver, arguments.positionals[2]]
    return try await Send().run(sendArguments, console: console)
  }
}
