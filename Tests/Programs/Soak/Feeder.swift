import PipeRuntime
import Synchronization
import NumberMachines

/// Keeps sources busy with requests, and records the requests.
final class Feeder: Sendable {
  private let client: ReattachingClient
  private let sources: [String]
  private let durability: Durability
  private let isStopped = Mutex(false)

  /// The count of numbers in one request to a source.
  private let batchSize: Int

  init(
    _ client: ReattachingClient, _ sources: [String], _ durability: Durability, batchSize: Int = 100
  ) {
    self.client = client
    self.sources = sources
    self.durability = durability
    self.batchSize = batchSize
  }

  /// Stops sending requests. The pending ones complete.
  func stop() { isStopped.withLock { $0 = true } }

  /// Feeds the sources until it is stopped.
  /// - Returns: The requests to each source.
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
          if source.sent + batchSize / 2 >= until { until += batchSize }
          // Repeats the request if the source has forgotten it. The source then sends everything
          // again, which the comparison finds.
          if source.until < until { try await requester.go(until: until) }
        }
        try await requester.order(orders + 1)
        orders += 1
        try await Task.sleep(for: .milliseconds(20))
      } while !isStopped.withLock { $0 }
    } catch is SoakFailure where durability == .volatile {
      // The source is stuck. The damage is measured after everything has come to rest.
    }
    // On a slow machine the source may not have reported its progress before the end.
    return (until > 0 ? [.go(until: until)] : []) + (0..<orders).map { .order(n: $0 + 1) }
  }

  /// Returns the progress that the source has last reported.
  private func progress(of source: String) async throws -> (sent: Int, until: Int)? {
    let directory = try await client.directory(fresh: false)
    let members = directory[node: source]?.status?.state?.caseMembers
    guard let sent = (members?["sent"] ?? members?["n"])?.integer,
      let until = members?["until"]?.integer
    else { return nil }
    return (Int(sent), Int(until))
  }
}
