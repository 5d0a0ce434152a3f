import PipeWire

/// Clients that are answered when what they asked for has come about.
struct WaitingClients {
  /// The answer, or `nil` while it is not known.
  typealias Condition = (TopologyLifecycle) -> ControlAnswer?

  private var clients: [(asker: Asker, condition: Condition)] = []
  /// Those that wait for the end of the run. Clients of other hosts do so for as long as they follow it, and do not
  /// say when they leave.
  private var untilEnd: [Asker] = []

  /// Of those that wait for the end, the oldest give way to others. They find out by themselves that it is gone.
  private static let limit = 10_000

  mutating func append(_ asker: Asker, until condition: @escaping Condition) {
    clients.append((asker, condition))
  }

  mutating func appendUntilEnd(_ asker: Asker) {
    if untilEnd.count >= Self.limit { untilEnd.removeFirst(Self.limit / 10) }
    untilEnd.append(asker)
  }

  /// Takes out those whose answer is known now.
  mutating func takeAnswered(by lifecycle: TopologyLifecycle) -> [(Asker, ControlAnswer)] {
    var answered: [(Asker, ControlAnswer)] = []
    if case .finished(let outcome) = lifecycle.state {
      answered = untilEnd.map { ($0, .ended(outcome)) }
      untilEnd = []
    }
    clients.removeAll { client in
      guard let answer = client.condition(lifecycle) else { return false }
      answered.append((client.asker, answer))
      return true
    }
    return answered
  }
}
