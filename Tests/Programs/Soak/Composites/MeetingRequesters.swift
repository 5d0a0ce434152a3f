import PipeRuntime
import Synchronization

/// Requests meetings, several at the same time for each composite, and records the answers.
final class MeetingRequesters: Sendable {
  private struct State {
    var attempts: [Attempt] = []
    var coordinatorAnswers = CoordinatorAnswers()
    var isStopped = false
  }

  private let client: ReattachingClient
  private let plan: MeetingPlan
  private let state = Mutex(State())

  /// The number of simultaneous callers for each composite.
  private static let requestersPerComposite = 2
  /// The maximum time to wait for an answer.
  private static let answerTimeout: Duration = .seconds(30)

  init(_ client: ReattachingClient, _ plan: MeetingPlan) {
    self.client = client
    self.plan = plan
  }

  var attempts: [Attempt] { state.withLock { $0.attempts } }
  var coordinatorAnswers: CoordinatorAnswers { state.withLock { $0.coordinatorAnswers } }

  /// Stops sending requests. Pending requests continue.
  func stop() { state.withLock { $0.isStopped = true } }

  /// Sends requests until ``stop()`` is called.
  func run(using generator: inout SplitMix64) async throws {
    try await withThrowingTaskGroup { group in
      for composite in plan.composites {
        for number in 0..<Self.requestersPerComposite {
          var own = SplitMix64(seed: generator.next())
          group.addTask { [self] in
            try await requestMeetings(
              composite, as: "\(composite.name)\(["a", "b"][number])", using: &own)
          }
        }
      }
      try await group.waitForAll()
    }
  }

  private func requestMeetings(
    _ composite: MeetingPlan.Composite, as requester: String, using generator: inout SplitMix64
  ) async throws {
    var n = 0
    while !state.withLock({ $0.isStopped }) {
      n += 1
      // One in ten requests does not wait for an answer, so its caller never learns the outcome.
      let waits = Int.random(in: 0..<10, using: &generator) > 0
      let mode: SynchronizedMode =
        Bool.random(using: &generator)
        ? .try : .await(.milliseconds(Int.random(in: 1...300, using: &generator)))
      let timeout: Duration =
        waits ? Self.answerTimeout : .milliseconds(Int.random(in: 1...20, using: &generator))
      try await requestMeeting(composite, requester, n, mode, timeout)
      if Int.random(in: 0..<4, using: &generator) == 0 {
        try await ask(composite, Int.random(in: -2...3, using: &generator))
      }
      try await Task.sleep(for: .milliseconds(Int.random(in: 1...15, using: &generator)))
    }
  }

  /// Requests a meeting of a composite's members, and records the answer.
  @discardableResult
  func requestMeeting(
    _ composite: MeetingPlan.Composite, _ requester: String, _ n: Int, _ mode: SynchronizedMode,
    _ timeout: Duration
  ) async throws -> Attempt.Outcome {
    var outcome = Attempt.Outcome.unknown
    do {
      let reply = try await client.synchronize(
        composite.name,
        json: ["meet": ["by": .string(requester), "n": .integer(Int64(n))]], mode: mode,
        timeout: timeout)
      outcome = Attempt.Outcome(reply)
      if case .committed(let transaction, _) = reply {
        state.withLock {
          $0.coordinatorAnswers.record(transaction, of: composite.coordinator, reply)
        }
      }
    } catch TopologyClientError.unknownOutcome {
      // The caller does not know the outcome, but the members must still agree on it.
    }
    let attempt = Attempt(composite.name, "\(requester):\(n)", outcome)
    state.withLock { $0.attempts.append(attempt) }
    return outcome
  }

  /// Queries the outcome of a transaction whose number is near the newest one. The transaction may
  /// still be in flight.
  private func ask(_ composite: MeetingPlan.Composite, _ distance: Int) async throws {
    let newest = state.withLock { $0.coordinatorAnswers.newest(of: composite.coordinator) }
    guard let newest, let number = UInt64(exactly: Int(newest.sequence) + distance), number > 0
    else { return }
    try await ask(composite.name, TransactionID(epoch: newest.epoch, sequence: number))
  }

  /// Queries again all outcomes that coordinators have reported.
  /// - Returns: A description of each transaction whose coordinator no longer knows the outcome.
  func requeryOutcomes() async throws -> [String] {
    var lost: [String] = []
    for coordinator in plan.coordinators {
      let known = state.withLock { $0.coordinatorAnswers.decidedTransactions(of: coordinator) }
      for transaction in known.suffix(Self.requeryLimit) {
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

  /// The number of transactions per coordinator to query at the end. A coordinator keeps the
  /// outcomes of more transactions.
  private static let requeryLimit = 400

  @discardableResult
  private func ask(
    _ composite: String, _ transaction: TransactionID
  ) async throws -> SynchronizedReply? {
    do {
      let reply = try await client.ask(composite, about: transaction)
      let coordinator = plan[composite]?.coordinator ?? composite
      state.withLock {
        $0.coordinatorAnswers.count()
        $0.coordinatorAnswers.record(transaction, of: coordinator, reply)
      }
      return reply
    } catch let error as TopologyClientError {
      switch error {
      // The coordinator is restarting, and the restart takes too long.
      case .nodeDown, .unknownOutcome: return nil
      default: throw error
      }
    }
  }
}
