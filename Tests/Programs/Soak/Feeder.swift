import PipeRuntime
import Synchronization
import NumberMachines

/// Keeps sources busy with requests, and remembers what it has asked for.
final class Feeder: Sendable {
  private let client: SteadyClient
  private let sources: [String]
  private let durability: Durability
  private let isStopped = Mutex(false)

  /// Numbers that a source is asked for at a time.
  private let portion: Int

  init(
    _ client: SteadyClient, _ sources: [String], _ durability: Durability, portion: Int = 100
  ) {
    self.client = client
    self.sources = sources
    self.durability = durability
    self.portion = portion
  }

  /// Lets the requests come to an end that are under way.
  func stop() { isStopped.withLock { $0 = true } }

  /// Feeds until it is stopped.
  /// - Returns: What each source has been sent.
  func run() async throws -> [String: [NumberEvent]] {
    try await withThrowingTaskGroup(of: (String, [NumberEvent]).self) { group in
      for source in sources {
        group.addTask { [self] in (source, try await feed(source)) }
      }
      var inputs: [String: [NumberEvent]] = [:]
      for try await (source, events) in group { inputs[source] = events }
      return inputs
    }
  }

  private func feed(_ source: String) async throws -> [NumberEvent] {
    let requester = Requester(client: client, node: source, durability: durability)
    var (until, orders) = (0, 0)
    do {
      repeat {
        if let source = try await progress(of: source) {
          if source.sent + portion / 2 >= until { until += portion }
          // Once more where it has forgotten: it then sends all again, which shows.
          if source.until < until { try await requester.go(until: until) }
        }
        try await requester.order(orders + 1)
        orders += 1
        try await Task.sleep(for: .milliseconds(20))
      } while !isStopped.withLock { $0 }
    } catch is SoakFailure where durability == .volatile {
      // It stands still: what that has cost is seen when all has come to rest.
    }
    // On a slow machine it may not have told before the end how far it is.
    return (until > 0 ? [.go(until: until)] : []) + (0..<orders).map { .order(n: $0 + 1) }
  }

  /// How far the source says that it is, which may be some time ago.
  private func progress(of source: String) async throws -> (sent: Int, until: Int)? {
    let directory = try await client.directory(fresh: false)
    let members = directory[node: source]?.status?.state?.caseMembers
    guard let sent = (members?["sent"] ?? members?["n"])?.integer,
      let until = members?["until"]?.integer
    else { return nil }
    return (Int(sent), Int(until))
  }
}
