import PipeRuntime

/// The part of `orchestrator send` that is for composites.
struct SynchronizedSend {
  private enum Way {
    case all(SynchronizedMode)
    case each
    case ask(TransactionID)
  }

  static let missingEvent = CommandError(
    "the event is missing; 'orchestrator help send' shows how", code: .usage)

  /// Whether an option was given that is for composites only.
  let hasOptions: Bool
  private let composite: String
  private let timeout: Duration
  private let way: Way

  init(_ arguments: ParsedArguments) throws(CommandError) {
    let options = ["await", "broadcast", "ask"].filter(arguments.flag)
    guard options.count < 2 else {
      throw CommandError("--\(options[0]) and --\(options[1]) exclude each other", code: .usage)
    }
    hasOptions = !options.isEmpty
    composite = arguments.positionals[0]
    timeout = arguments.duration("timeout") ?? .seconds(5)
    if let text = arguments.value("ask") {
      guard let transaction = TransactionID(text) else {
        throw CommandError("'\(text)' is no transaction; one is like 3.17", code: .usage)
      }
      way = .ask(transaction)
    } else if let limit = arguments.duration("await") {
      way = .all(.await(limit == .zero ? nil : limit))
    } else {
      way = arguments.flag("broadcast") ? .each : .all(.try)
    }
  }

  func send(_ event: JSONValue?, on topology: TopologyClient) async throws -> TransactionReply {
    switch (way, event) {
    case (.ask(let transaction), _):
      return .atomic(try await topology.ask(composite, about: transaction, timeout: timeout))
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
    let what = event.map(\.caseText) ?? "it"
    switch reply {
    case .atomic(let reply): return try show(reply, of: what, fields, arguments, console)
    case .broadcast(let results):
      for (participant, result) in results.sorted(by: { $0.key < $1.key })
      where arguments.format == .text {
        try console.print("\(participant): \(result.wording(fields))")
      }
      let hasAll = results.values.allSatisfy { if case .moved = $0 { true } else { false } }
      return hasAll ? .success : .failure
    }
  }

  private func show(
    _ reply: SynchronizedReply, of event: String, _ fields: [String: [String]],
    _ arguments: ParsedArguments, _ console: Console
  ) throws -> ExitCode {
    switch reply {
    case .committed(let transaction, let versions):
      if arguments.format == .text {
        let moved = versions.sorted { $0.key < $1.key }.map { "\($0.key) version \($0.value)" }
        try console.print(
          "\(composite): \(event) committed as \(transaction): \(moved.joined(separator: ", "))")
      }
      return .success
    case .refused(let withholdings):
      let who = withholdings.map {
        "'\($0.participant)' is in \($0.wording(fields))"
      }.joined(separator: "; ")
      throw CommandError("composite '\(composite)' refused \(event): \(who)")
    case .busy(let names):
      throw CommandError(
        "composite '\(composite)' is busy: \(Self.list(names)). Nothing was applied; try again.")
    case .unavailable(let name):
      throw CommandError(
        name == composite
          ? "composite '\(composite)' did not take \(event): it does not run, or gave it up. Nothing "
            + "was applied"
          : "composite '\(composite)': participant '\(name)' does not run. Nothing was applied")
    case .unknown(let transaction):
      throw CommandError(
        "composite '\(composite)': what became of transaction \(transaction) is not known yet; "
          + "'orchestrator send \(composite) --ask \(transaction)' asks again", code: .timedOut)
    }
  }

  private static func list(_ names: [String]) -> String {
    names.map { "'\($0)'" }.joined(separator: ", ")
      + (names.count == 1 ? " takes no event now" : " take no event now")
  }
}

extension Withholding {
  /// Its state and its reason.
  fileprivate func wording(_ fields: [String: [String]]) -> String {
    "\(state.stateText(fields: fields[participant]).cut(to: 200)): \(reason.wording)".printable
  }
}

extension BroadcastResult {
  fileprivate func wording(_ fields: [String: [String]]) -> String {
    switch self {
    case .moved(let version): "moved to version \(version)"
    case .refused(let withholding): "refused in \(withholding.wording(fields))"
    case .busy: "busy"
    case .unavailable: "does not run"
    case .unknown: "did not answer"
    }
  }
}
