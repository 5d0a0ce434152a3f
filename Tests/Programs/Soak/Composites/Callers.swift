import PipeRuntime
import Synchronization

/// Ask for meetings, several at a time at each composite, and keep what they are told.
final class Callers: Sendable {
  private struct State {
    var attempts: [Attempt] = []
    var endings = Endings()
    var isStopped = false
  }

  private let client: SteadyClient
  private let plan: MeetingPlan
  private let state = Mutex(State())

  /// Callers of each composite.
  private static let perComposite = 2
  /// The longest wait for an answer, of those who wait for it.
  private static let patience: Duration = .seconds(30)

  init(_ client: SteadyClient, _ plan: MeetingPlan) {
    self.client = client
    self.plan = plan
  }

  var attempts: [Attempt] { state.withLock { $0.attempts } }
  var endings: Endings { state.withLock { $0.endings } }

  /// Lets the requests come to an end that are under way.
  func stop() { state.withLock { $0.isStopped = true } }

  /// Asks until it is stopped.
  func run(using generator: inout SplitMix64) async throws {
    try await withThrowingTaskGroup { group in
      for composite in plan.composites {
        for place in 0..<Self.perComposite {
          var own = SplitMix64(seed: generator.next())
          group.addTask { [self] in
            try await call(composite, as: "\(composite.name)\(["a", "b"][place])", using: &own)
          }
        }
      }
      try await group.waitForAll()
    }
  }

  private func call(
    _ composite: MeetingPlan.Composite, as caller: String, using generator: inout SplitMix64
  ) async throws {
    var n = 0
    while !state.withLock({ $0.isStopped }) {
      n += 1
      // One in ten does not wait for the answer, and never learns it.
      let waits = Int.random(in: 0..<10, using: &generator) > 0
      let mode: SynchronizedMode =
        Bool.random(using: &generator)
        ? .try : .await(.milliseconds(Int.random(in: 1...300, using: &generator)))
      let timeout: Duration =
        waits ? Self.patience : .milliseconds(Int.random(in: 1...20, using: &generator))
      try await meet(composite, caller, n, mode, timeout)
      if Int.random(in: 0..<4, using: &generator) == 0 {
        try await ask(composite, Int.random(in: -2...3, using: &generator))
      }
      try await Task.sleep(for: .milliseconds(Int.random(in: 1...15, using: &generator)))
    }
  }

  /// Lets the members of a composite meet, and keeps the answer.
  @discardableResult
  func meet(
    _ composite: MeetingPlan.Composite, _ caller: String, _ n: Int, _ mode: SynchronizedMode,
    _ timeout: Duration
  ) async throws -> Attempt.Outcome {
    var outcome = Attempt.Outcome.unknown
    do {
      let reply = try await client.synchronize(
        composite.name,
        json: ["meet": ["by": .string(caller), "n": .integer(Int64(n))]], mode: mode,
        timeout: timeout)
      outcome = Attempt.Outcome(reply)
      if case .committed(let transaction, _) = reply {
        state.withLock { $0.endings.tell(transaction, of: composite.coordinator, reply) }
      }
    } catch TopologyClientError.unknownOutcome {
      // What this caller is told; the members must agree on it all the same.
    }
    let attempt = Attempt(composite.name, "\(caller):\(n)", outcome)
    state.withLock { $0.attempts.append(attempt) }
    return outcome
  }

  /// Asks what has become of a transaction near the newest one, which may be under way.
  private func ask(_ composite: MeetingPlan.Composite, _ distance: Int) async throws {
    let newest = state.withLock { $0.endings.newest(of: composite.coordinator) }
    guard let newest, let place = UInt64(exactly: Int(newest.sequence) + distance), place > 0
    else { return }
    try await ask(composite.name, TransactionID(epoch: newest.epoch, sequence: place))
  }

  /// Asks each coordinator once more for all that it has said.
  /// - Returns: The transactions that it does not know any more.
  func askAgain() async throws -> [String] {
    var lost: [String] = []
    for coordinator in plan.coordinators {
      let known = state.withLock { $0.endings.settled(of: coordinator) }
      for transaction in known.suffix(Self.askedAgain) {
        guard let reply = try await ask(coordinator, transaction) else {
          lost.append("\(coordinator): nothing was said of transaction \(transaction) at the end")
          continue
        }
        if case .unknown = reply {
          lost.append("\(coordinator): transaction \(transaction) is not known any more")
        }
      }
    }
    return lost
  }

  /// Transactions that are asked for at the end, of each coordinator: fewer than it keeps.
  private static let askedAgain = 400

  @discardableResult
  private func ask(
    _ composite: String, _ transaction: TransactionID
  ) async throws -> SynchronizedReply? {
    do {
      let reply = try await client.ask(composite, about: transaction)
      let coordinator = plan[composite]?.coordinator ?? composite
      state.withLock {
        $0.endings.count()
        $0.endings.tell(transaction, of: coordinator, reply)
      }
      return reply
    } catch let error as TopologyClientError {
      switch error {
      // It is being started again, for too long.
      case .nodeDown, .unknownOutcome: return nil
      default: throw error
      }
    }
  }
}
