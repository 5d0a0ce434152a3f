import PipeRuntime
import Synchronization
import NumberMachines

/// Sends requests to sources continuously, and records the requests.
final class Feeder: Sendable {
  private let client: ReattachingClient
  private let sources: [String]
  private let durability: Durability
  private let isStopped = Mutex(false)

  /// The count of numbers that one request makes a source send.
  private let batchSize: Int

  init(
    _ client: ReattachingClient, _ sources: [String], _ durability: Durability, batchSize: Int = 100
  ) {
    self.client = client
    self.sources = sources
    self.durability = durability
    self.batchSize = batchSize
  }

  /// Stops sending requests. Pending requests continue.
  func stop() { isStopped.withLock { $0 = true } }

  /// Sends requests to the sources until ``stop()`` is called.
  /// - Returns: The requests that each source has applied.
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
          // If the source has lost the request, repeat it. The source then sends all its numbers
          // again, which the comparison detects.
          if source.until < until { try await requester.go(until: until) }
        }
        try await requester.order(orders + 1)
        orders += 1
        try await Task.sleep(for: .milliseconds(20))
      } while !isStopped.withLock { $0 }
    } catch is SoakFailure where durability == .volatile {
      // The source makes no progress. The comparison at the end counts the lost numbers.
    }
    // On a slow host, the source may not have reported its progress before the end.
    return (until > 0 ? [.go(until: until)] : []) + (0..<orders).map { .order(n: $0 + 1) }
  }

  /// Returns the progress that the source last reported; `nil` if it has not reported any.
  private func progress(of source: String) async throws -> (sent: Int, until: Int)? {
    let directory = try await client.directory(fresh: false)
    let members = directory[node: source]?.status?.state?.caseMembers
    guard let sent = (members?["sent"] ?? members?["n"])?.integer,
      let until = members?["until"]?.integer
    else { return nil }
    return (Int(sent), Int(until))
  }
}
