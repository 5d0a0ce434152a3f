import PipeRuntime

/// Clients who begin a request and then send a byte now and then, so that it does not come as a whole: a
/// server that only sees that something moves waits for them.
package final class SlowClients: Sendable {
  package let connections: [WebClient.Connection]
  private let task: Task<Void, Never>
  private let progress = Progress()

  private final class Progress: Sendable { let isOver = Locked(false) }

  /// Bytes of each, which take a minute: a server that has waited for all of them has not given them up.
  private static let byteCount = 600

  /// Connects them, and has them begin.
  package init(_ count: Int, of client: WebClient) async throws {
    let connections = try await client.begin(
      "GET /metrics HTTP/1.1\r\nHost: \(client.host)\r\nX-Slow: ", times: count)
    self.connections = connections
    task = Task { [progress] in
      for _ in 0..<Self.byteCount {
        for connection in connections { connection.send("a") }
        guard (try? await Task.sleep(for: .milliseconds(100))) != nil else { return }
      }
      progress.isOver.withLock { $0 = true }
    }
  }

  deinit { task.cancel() }

  /// Whether they have said all that they had to say.
  package var areSpent: Bool { progress.isOver.withLock { $0 } }
}
