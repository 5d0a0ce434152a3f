import PipeClient
import PipeMachines
import PipeSupport
import PipeWire

extension LiveRecording {
  /// How long a node has to say what becomes of an event.
  private static let patience: Duration = .seconds(5)

  package func answer(_ question: PageQuestion) async throws -> JSONValue {
    if let client = client.withLock({ $0 }) { return try await tell(question, client) }
    // It may have come since it was last looked for.
    guard let client = try? TopologyClient.attach(to: target) else {
      throw PageProblem("topology '\(name)' does not run now")
    }
    defer { client.close() }
    return try await tell(question, client)
  }

  private func tell(_ question: PageQuestion, _ client: TopologyClient) async throws -> JSONValue {
    do {
      return try await answer(question, client)
    } catch {
      throw PageProblem("\(error)")
    }
  }

  private func answer(_ question: PageQuestion, _ client: TopologyClient) async throws -> JSONValue
  {
    switch question {
    case .machine(let node): return try JSONValue(encoding: await client.describe(node))
    case .enabled(let node): return try await client.enabledEvents(of: node).inspected
    case .state(let node): return try await state(of: node, client)
    case .letters(let node):
      return .array(
        try await client.letters(of: node).suffix(100).map { try JSONValue(encoding: $0) })
    case .send(let node, let event):
      switch try await client.deliver(event, to: node, timeout: Self.patience).outcome {
      case .node(let outcome): return outcome.inspected
      case .composite(let reply): return TransactionReply.atomic(reply).json
      }
    case .letter(let node, let id, drops: true):
      try await client.drop(letter: id, of: node, timeout: Self.patience)
      return ["outcome": "dropped"]
    case .letter(let node, let id, drops: false):
      return try await client.resend(letter: id, of: node, timeout: Self.patience).inspected
    }
  }
}

extension LiveRecording {
  /// How long a node has to tell its state.
  private static let statePatience: Duration = .seconds(2)

  /// All of it: what is told unasked is cut.
  private func state(of node: String, _ client: TopologyClient) async throws -> JSONValue {
    let states = try await client.states(of: [node], .latest)
    let found = await withTaskGroup(of: StateChange?.self) { group in
      group.addTask { await states.first { _ in true } }
      group.addTask {
        try? await Task.sleep(for: Self.statePatience)
        return nil
      }
      defer { group.cancelAll() }
      return await group.next() ?? nil
    }
    guard let found else {
      throw PageProblem("node '\(node)' does not tell its state: does it run?")
    }
    return ["version": .count(found.version), "state": found.state]
  }
}

extension RequestOutcome {
  fileprivate var inspected: JSONValue {
    switch self {
    case .moved(let version, let state):
      ["outcome": "moved", "version": .count(version), "state": state]
    case .refused(let refusal, let state):
      [
        "outcome": "refused", "reason": .string(refusal.code), "error": .optional(refusal.error),
        "state": state,
      ]
    case .done: ["outcome": "done"]
    }
  }
}

extension EnabledEvents {
  /// Each event with its fields, and what is to be said of it.
  fileprivate var inspected: JSONValue {
    [
      "name": .string(name), "kind": .string(kind.rawValue),
      "version": version.map { .count($0) } ?? .null,
      "events": .array(
        events.map { event in
          [
            "event": .string(event.event.name), "composite": .optional(event.composite),
            "verdict": .string(event.verdict.rawValue),
            "participants": .texts(event.participants),
            "fields": .array(
              event.event.fields.map { ["name": .string($0.name), "type": .string($0.type)] }),
            "because": .array(
              event.withheld.map { answer in
                [
                  "participant": .string(answer.participant), "state": answer.state ?? .null,
                  "reason": .string(answer.obstacle?.description ?? ""),
                ]
              }),
          ]
        }),
    ]
  }
}
