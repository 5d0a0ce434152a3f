import PipeRuntime

/// The verb `orchestrator dead-letters`.
struct DeadLetterCommand: Verb {
  let description = VerbDescription(
    "dead-letters", "Lists, resends or drops the dead letters of a node",
    discussion:
      "A dead letter is an event that the node did not apply and stored with the reason, or an "
      + "effect or a timer that crashed the node too many times. 'resend' sends the event again, "
      + "runs the effect again, with the same idempotency key, or fires the timer again. 'list' "
      + "and 'show' also work for a node that is not running; 'resend' and 'drop' require a "
      + "running node. If the node refuses a dead letter again, the dead letter is kept, and the "
      + "exit code is 1. Times are local on a terminal, and UTC in redirected output and JSON.",
    options: [
      .topology, .output,
      Option("all", "a", "Resends or drops all dead letters"),
      Option("timeout", value: .duration, "Maximum time to wait for each answer. Default: 5s"),
    ],
    positionals: [
      Positional("NODE", .node, .one, "The node"),
      Positional(
        "list|show|resend|drop", .choice("ACTION", DeadLetterAction.allCases.map(\.rawValue)),
        .optional, "The action. Default: list"),
      Positional("ID", .count("ID"), .any, "The IDs of the dead letters"),
    ],
    examples: [
      ("orchestrator dead-letters gate", "Lists the dead letters of the gate"),
      ("orchestrator dead-letters gate show 3", "Shows all details of dead letter 3"),
      ("orchestrator dead-letters gate resend 3 4", "Sends two dead letters to the gate again"),
      ("orchestrator dead-letters gate drop --all", "Drops all dead letters of the gate"),
    ])

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let node = arguments.positionals[0]
    let action = try DeadLetterAction(arguments)
    let ids = arguments.positionals.dropFirst(2).compactMap { UInt64($0) }
    switch action {
    case .list:
      let deadLetters = try await find(node, arguments, console)
      if deadLetters.isEmpty, arguments.format == .text {
        console.note("node '\(node)' has no dead letters")
      } else {
        try console.print(deadLetters.map(\.record), as: arguments.format) {
          Self.table(deadLetters, console.style)
        }
      }
    case .show:
      let deadLetters = try await find(node, arguments, console)
      let found = try ids.map { id in
        guard let deadLetter = deadLetters.first(where: { $0.id == id }) else {
          throw CommandError("node '\(node)' has no dead letter \(id)", code: .usage)
        }
        return deadLetter
      }
      try console.print(
        found.map(\.record), as: arguments.format,
        lines: found.flatMap { $0.lines(console.style) })
    case .resend, .drop:
      return try await change(
        node, action, arguments.contains(option: "all") ? nil : ids, arguments, console)
    }
    return .success
  }

  // MARK: Reading of dead letters

  /// Returns the dead letters of a node. They are read from the node's journal. A node without a
  /// journal keeps only the last few dead letters, in memory.
  private func find(
    _ node: String, _ arguments: ParsedArguments, _ console: Console
  ) async throws -> [DeadLetter] {
    var target = try arguments.target
    if case .local = target {
      let directories = try StoredTopology.findDirectories(arguments, requiredContent: "journals")
      guard RunningTopology.find(directories) != nil else {
        do {
          let (deadLetters, lost) = try await TopologyRecords.files(directories).deadLetters(
            of: node)
          Self.note(lost: lost, console)
          return deadLetters
        } catch JournalError.missing(let path, let node) {
          try directories.checkIsKnown(node)
          throw JournalError.missing(path: path, node: node)
        }
      }
      target = .local(directories.topology)
    }
    let client = try TopologyClient.attach(to: target)
    defer { client.close() }
    let information = try await client.directory()[node: node]
    let deadLetters = try await client.deadLetters(of: node)
    Self.note(lost: information?.status?.deadLettersLost ?? 0, console)
    if information?.journal == nil, let count = information?.status?.deadLetters,
      count > deadLetters.count
    {
      console.note(
        "showing the last \(deadLetters.count) of \(count) dead letters; a node without a "
          + "journal keeps no more")
    }
    return deadLetters
  }

  private static func note(lost: UInt64, _ console: Console) {
    guard lost > 0 else { return }
    console.note(
      "\(lost) refused events were not stored, because the journal had reached its limit of dead "
        + "letters; resend or drop dead letters, or raise 'journal.dead_letters' in the topology "
        + "file")
  }

  private static func table(_ deadLetters: [DeadLetter], _ style: Style) -> Table {
    var table = Table(
      .init("ID", .right), .init("TIME", dropOrder: 2), .init("PIPE", minimumWidth: 12),
      .init("NUMBER", .right, dropOrder: 1), .init("EVENT", minimumWidth: 20),
      .init("REASON", minimumWidth: 20))
    for deadLetter in deadLetters {
      table.add(
        String(deadLetter.id), style.time(deadLetter.time), deadLetter.pipe,
        String(deadLetter.sequence), deadLetter.event.caseText.cut(to: 60), deadLetter.reason)
    }
    return table
  }

  // MARK: Resending and dropping of dead letters

  private func change(
    _ node: String, _ action: DeadLetterAction, _ ids: [UInt64]?, _ arguments: ParsedArguments,
    _ console: Console
  ) async throws -> ExitCode {
    let timeout = arguments.duration("timeout") ?? .seconds(5)
    let client = try attach(arguments)
    defer { client.close() }
    let foundDeadLetters: [DeadLetter]
    do { foundDeadLetters = try await client.deadLetters(of: node) } catch {
      guard ids != nil else { throw error }
      foundDeadLetters = []
    }
    let selectedIDs = ids ?? foundDeadLetters.map(\.id)
    let timers = Set(foundDeadLetters.filter { $0.pipe.hasPrefix("timer ") }.map(\.id))
    let fields = try await client.directory(fresh: false)[node: node]?.stateFields
    func text(_ state: JSONValue) -> String {
      state.stateText(fields: fields).cut(to: 200).printable
    }
    if selectedIDs.isEmpty { console.note("node '\(node)' has no dead letters") }
    var code = ExitCode.success
    for id in selectedIDs {
      let outcome: RequestOutcome
      do {
        if action == .resend {
          outcome = try await client.resend(deadLetter: id, of: node, timeout: timeout)
        } else {
          try await client.drop(deadLetter: id, of: node, timeout: timeout)
          outcome = .done
        }
      } catch TopologyClientError.nodeDown(_, let reason) {
        throw CommandError(
          "node '\(node)' is not running: \(reason); a node must run to resend or drop its "
            + "dead letters: 'orchestrator start \(node)'")
      }
      if arguments.format != .text { try console.print(outcome.record(deadLetter: id, of: node)) }
      switch outcome {
      case .accepted(let version, let state):
        guard arguments.format == .text else { break }
        try console.print(
          "\(node): dead letter \(id) accepted: \(text(state))  (version \(version))")
      case .done:
        guard arguments.format == .text else { break }
        let outcomeText =
          action == .resend
          ? "accepted: its \(timers.contains(id) ? "timer" : "effect") runs again" : "dropped"
        try console.print("\(node): dead letter \(id) \(outcomeText)")
      case .refused(let refusal, let state):
        code = .failure
        console.error(
          "node '\(node)' refused dead letter \(id) again in \(text(state)): "
            + "\(refusal.wording.printable); the dead letter is kept")
      }
      try console.flush()
    }
    return code
  }

  private func attach(_ arguments: ParsedArguments) throws -> TopologyClient {
    do {
      return try TopologyClient.attach(to: arguments.target)
    } catch let error as TopologyClientError where error.exitCode == ExitCode.notRunning.rawValue {
      throw CommandError(
        "\(error); a node must run to resend or drop its dead letters: start the topology first",
        code: .notRunning)
    }
  }
}

/// The actions of `dead-letters`.
enum DeadLetterAction: String, CaseIterable {
  case list, show, resend, drop

  /// Reads the action. Checks that the command line contains the IDs that this action requires.
  init(_ arguments: ParsedArguments) throws(CommandError) {
    let words = arguments.positionals
    self = words.count > 1 ? DeadLetterAction(rawValue: words[1]) ?? .list : .list
    let hasIDs = words.count > 2
    let hasAllFlag = arguments.contains(option: "all")
    switch self {
    case .list where hasIDs: throw Self.usage("'list' takes no ID; 'show ID' shows one dead letter")
    case .list, .show:
      if hasAllFlag { throw Self.usage("--all is only for 'resend' and 'drop'") }
      if self == .show, !hasIDs { throw Self.usage("'show' requires the ID of a dead letter") }
    case .resend, .drop:
      guard hasIDs != hasAllFlag else {
        throw Self.usage("'\(rawValue)' requires the IDs of dead letters, or --all")
      }
    }
  }

  private static func usage(_ problem: String) -> CommandError {
    CommandError(problem + "\nTry 'orchestrator dead-letters --help'.", code: .usage)
  }
}

extension DeadLetter {
  /// The JSON for `-o json` and `-o jsonl`.
  package var record: JSONValue {
    [
      "id": .count(id), "pipe": .string(pipe), "sequence": .count(sequence), "event": event,
      "reason": .string(reason), "state": state ?? .null, "version": .count(version),
      "time": .string(Timestamp(nanoseconds: time).description),
    ]
  }

  /// Returns a description of the dead letter for users.
  fileprivate func lines(_ style: Style) -> [String] {
    [
      ("number", String(id)), ("time", style.time(time)),
      ("pipe", "\(pipe), number \(sequence)"), ("event", event.text), ("reason", reason),
      ("state", (state?.text ?? "-") + "  (version \(version))"),
    ].map { "\($0.0.padded(to: 6))  \($0.1.printable)" }
  }
}

extension RequestOutcome {
  /// Returns the outcome of resending or dropping a dead letter, as JSON.
  fileprivate func record(deadLetter id: UInt64, of node: String) -> JSONValue {
    guard case .object(var members) = record(node: node, event: .null) else { return .null }
    members["event"] = nil
    members["deadLetter"] = .count(id)
    return .object(members)
  }
}
