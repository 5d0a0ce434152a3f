import Glibc
import PipeRuntime

/// The verb `orchestrator send`.
struct Send: Verb {
  let description = VerbDescription(
    "send", "Sends an event to a node or composite, and prints the outcome",
    discussion:
      "An event without a payload is only a label. If NODE is a composite, either all "
      + "participants of the event accept it, or none does; an event that only one node of the "
      + "composite accepts is sent to that node. Exit code 1: the event was not applied, "
      + "because the node refused it, is busy or is not running. Exit code 124: no answer "
      + "arrived in time; the event may still be applied.",
    options: [
      .topology, .output,
      Option("timeout", value: .duration, "Maximum time to wait for the answer. Default: 5s"),
      Option(
        "await", value: .duration,
        "With a composite: tries again until the event is enabled, for at most this time; 0s "
          + "means no limit"),
      Option(
        "broadcast",
        "With a composite: each participant accepts or refuses the event independently"),
      Option(
        "ask", value: .text("TRANSACTION"),
        "With a composite: asks for the outcome of a transaction, instead of sending an event"),
    ],
    positionals: [
      Positional("NODE", .nodeOrInstance, .one, "The node, composite or instance NODE[KEY]"),
      Positional(
        "EVENT", .event, .optional,
        "The event: a label, or JSON; - reads the event from standard input"),
    ],
    examples: [
      ("orchestrator send door closeButtonWasPressed", "Sends an event without a payload"),
      (
        "orchestrator send door '{\"personsHaveEntered\":{\"persons\":3}}'",
        "Sends an event with a payload"
      ),
      ("orchestrator send door - < event.json", "Sends an event of any length from a file"),
      (
        "orchestrator send lift emergencyStop --await 2s",
        "Sends a synchronized event, and tries again for up to 2 s until it is enabled"
      ),
    ])

  /// An event that was sent, with its outcome.
  private enum SentEvent: Sendable {
    case event(RequestOutcome, by: String, of: MachineDescription?)
    case synchronized(TransactionReply, stateFields: [String: [String]])
  }

  func run(_ arguments: ParsedArguments, console: Console) async throws -> ExitCode {
    let named = arguments.positionals[0]
    let timeout = arguments.duration("timeout") ?? .seconds(5)
    let synchronization = try SynchronizedSend(arguments)
    let given = try arguments.positionals.dropFirst().first.map {
      try CaseArgument.parse($0 == "-" ? Self.standardInput() : $0, noun: "event")
    }
    let sent: SentEvent = try await arguments.onTopology { topology in
      let directory = try await topology.directory(fresh: false)
      let (name, addressed) = try await topology.addressed(named, given ?? .null)
      let event = given == nil ? nil : addressed
      let target = try directory.nodes(named: [name], includingInstances: true)[0]
      let owningNode =
        if target.kind == .composite, let event {
          try await topology.owner(of: event, in: name)
        } else { String?.none }
      guard target.kind != .composite || owningNode != nil && !synchronization.hasCompositeOptions
      else {
        return .synchronized(
          try await synchronization.send(event, on: topology), stateFields: directory.stateFields)
      }
      guard !synchronization.hasCompositeOptions else {
        throw CommandError(
          "--await, --broadcast and --ask are only for composites; '\(name)' is a node",
          code: .usage)
      }
      guard var event else { throw SynchronizedSend.missingEvent }
      let node = owningNode ?? name
      if let field = target.instanceField, let instance = InstanceName(node) {
        event = instance.event(event, keyedBy: field)
      }
      let machine = try await Self.describe(node, of: topology)
      if let machine, !machine.events.isEmpty,
        let problem = machine.events.problem(
          with: event, noun: "event", owner: "machine '\(machine.machine)'")
      {
        throw TopologyClientError.invalidEvent(node, problem)
      }
      return .event(
        try await topology.send(node, json: event, timeout: timeout), by: node, of: machine)
    }
    switch sent {
    case .synchronized(let reply, let fields):
      return try synchronization.show(
        reply, of: given, stateFields: fields, arguments, console: console)
    case .event(let outcome, let node, let machine):
      return try show(outcome, of: given ?? .null, node, machine, arguments, console)
    }
  }

  /// The maximum size of an event on standard input. A larger input is probably a mistake. Unit:
  /// bytes.
  private static let inputLimit = 16 << 20

  /// Reads the event from standard input, where an event can be longer than a command-line
  /// argument.
  private static func standardInput() throws -> String {
    let bytes = try FileSystem.read(STDIN_FILENO, limit: inputLimit + 1)
    guard bytes.count <= inputLimit else {
      throw CommandError(
        "the event on standard input is larger than the limit of \(inputLimit >> 20) MiB",
        code: .usage)
    }
    guard let text = String(validating: bytes, as: UTF8.self) else {
      throw CommandError("the event on standard input is not UTF-8", code: .usage)
    }
    let isSpace: (Character) -> Bool = \.isWhitespace
    return String(text.drop(while: isSpace).reversed().drop(while: isSpace).reversed())
  }

  private func show(
    _ outcome: RequestOutcome, of event: JSONValue, _ node: String, _ machine: MachineDescription?,
    _ arguments: ParsedArguments, _ console: Console
  ) throws -> ExitCode {
    if arguments.format != .text { try console.print(outcome.record(node: node, event: event)) }
    let text = outcome.wording(of: event, by: node, fields: machine?.stateFields?.map(\.name))
    switch outcome {
    case .accepted:
      if arguments.format == .text { try console.print(text) }
      return .success
    case .refused(let refusal, _):
      // If the refusal contains an error, this error describes the problem. Otherwise, the user may
      // have sent the wrong event, so the message lists the events that the machine accepts.
      let alphabetHint =
        refusal.error == nil
        ? machine.map { "; \($0.machine) accepts " + $0.alphabetText } ?? "" : ""
      throw CommandError(text + alphabetHint)
    case .done: return .success
    }
  }

  /// Returns the description of the node's machine; `nil` if the node has not described itself yet.
  private static func describe(
    _ node: String, of topology: TopologyClient
  ) async throws -> MachineDescription? {
    do { return try await topology.describe(node) } catch TopologyClientError.failed { return nil }
  }
}

extension RequestOutcome {
  /// Returns the JSON for `-o json` and `-o jsonl`.
  package func record(node: String, event: JSONValue) -> JSONValue {
    switch self {
    case .accepted(let version, let state):
      [
        "node": .string(node), "event": event, "outcome": "accepted",
        "version": .count(version), "state": state,
      ]
    case .refused(let refusal, let state):
      .object(
        refusal.recordMembers.merging(
          ["node": .string(node), "event": event, "outcome": "refused", "state": state],
          uniquingKeysWith: { $1 }))
    case .done: ["node": .string(node), "event": event, "outcome": "done"]
    }
  }
}

extension MachineDescription {
  /// Formats a state of the machine for users.
  package func stateText(_ state: JSONValue) -> String {
    state.stateText(fields: stateFields?.map(\.name))
  }

  /// The events that the machine accepts in some state, with their fields.
  package var alphabetText: String {
    let accepted = events.filter { alphabet.contains($0.name) }.map(\.signature)
    return accepted.isEmpty ? "no events" : accepted.joined(separator: ", ")
  }
}

/// The part of `orchestrator send` for composites.
struct SynchronizedSend {
  private enum Operation {
    case all(SynchronizedMode)
    case each
    case ask(TransactionID)
  }

  static let missingEvent = CommandError(
    "EVENT is missing; see 'orchestrator help send'", code: .usage)

  /// Whether the command line contains an option that is only for composites.
  let hasCompositeOptions: Bool
  private let composite: String
  private let timeout: Duration
  private let operation: Operation

  init(_ arguments: ParsedArguments) throws(CommandError) {
    let options = ["await", "broadcast", "ask"].filter(arguments.contains(option:))
    guard options.count < 2 else {
      throw CommandError(
        "\(UsageError.conflict("--\(options[0])", "--\(options[1])"))", code: .usage)
    }
    hasCompositeOptions = !options.isEmpty
    composite = arguments.positionals[0]
    timeout = arguments.duration("timeout") ?? .seconds(5)
    if let text = arguments.value("ask") {
      guard let transaction = TransactionID(text) else {
        throw CommandError(
          "'\(text)' is not a transaction ID; write an ID such as 3.17", code: .usage)
      }
      operation = .ask(transaction)
    } else if let limit = arguments.duration("await") {
      operation = .all(.await(limit == .zero ? nil : limit))
    } else {
      operation = arguments.contains(option: "broadcast") ? .each : .all(.try)
    }
  }

  func send(_ event: JSONValue?, on topology: TopologyClient) async throws -> TransactionReply {
    switch (operation, event) {
    case (.ask(let transaction), _):
      return .atomic(
        try await topology.ask(
          InstanceName.node(of: composite), about: transaction, timeout: timeout))
    case (.all(let mode), let event?):
      return .atomic(
        try await topology.synchronize(composite, json: event, mode: mode, timeout: timeout))
    case (.each, let event?):
      return .broadcast(try await topology.broadcast(composite, json: event, timeout: timeout))
    case (.all, nil), (.each, nil): throw Self.missingEvent
    }
  }

  func show(
    _ reply: TransactionReply, of event: JSONValue?, stateFields fields: [String: [String]],
    _ arguments: ParsedArguments, console: Console
  ) throws -> ExitCode {
    if arguments.format != .text {
      guard case .object(var record) = reply.json else { return .failure }
      record["composite"] = .string(composite)
      record["event"] = event ?? .null
      try console.print(JSONValue.object(record))
    }
    switch reply {
    case .atomic(let reply):
      let text = reply.wording(of: event, by: composite, fields)
      switch reply {
      case .committed:
        if arguments.format == .text { try console.print(text) }
        return .success
      case .refused, .busy, .unavailable: throw CommandError(text)
      case .unknown: throw CommandError(text, code: .timedOut)
      }
    case .broadcast(let results):
      for (participant, result) in results.sorted(by: { $0.key < $1.key })
      where arguments.format == .text {
        try console.print("\(participant): \(result.wording(fields))")
      }
      let areAllAccepted = results.values.allSatisfy {
        if case .accepted = $0 { true } else { false }
      }
      return areAllAccepted ? .success : .failure
    }
  }
}

extension BroadcastResult {
  fileprivate func wording(_ fields: [String: [String]]) -> String {
    switch self {
    case .accepted(let version): "accepted: version \(version)"
    case .refused(let withholding): "refused in \(withholding.wording(fields))"
    case .busy: "busy"
    case .unavailable: "does not run"
    case .unknown: "did not answer"
    }
  }
}
