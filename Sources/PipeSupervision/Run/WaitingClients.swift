import PipeWire

/// Clients that are answered when what they asked for has come about.
struct WaitingClients {
  /// The answer, or `nil` while it is not known.
  typealias Condition = (TopologyLifecycle) -> ControlAnswer?

  private var clients: [(asker: Asker, condition: Condition)] = []

  mutating func append(_ asker: Asker, until condition: @escaping Condition) {
    clients.append((asker, condition))
  }

  /// Takes out those whose answer is known now.
  mutating func takeAnswered(by lifecycle: TopologyLifecycle) -> [(Asker, ControlAnswer)] {
    guard !clients.isEmpty else { return [] }
    var answered: [(Asker, ControlAnswer)] = []
    clients.removeAll { client in
      guard let answer = client.condition(lifecycle) else { return false }
      answered.append((client.asker, answer))
      return true
    }
    return answered
  }
}
