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
      let hasAll = results.values.allSatisfy { if case .moved = $0 { true } else { false } }
      return hasAll ? .success : .failure
    }
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
