import PipeRuntime

/// Clients that begin a request and then send single bytes, so that the request does not become complete. A
/// server that only checks for activity waits for them.
package final class SlowClients: Sendable {
  package let connections: [WebClient.Connection]
  private let task: Task<Void, Never>
  private let progress = Progress()

  private final class Progress: Sendable { let isOver = Locked(false) }

  /// The number of bytes that each client sends within a minute. A server that accepts all of them has not
  /// closed the connection for being slow.
  private static let byteCount = 600

  /// Connects the clients and begins their requests.
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

  /// Whether the clients have sent all their bytes.
  package var haveSentAll: Bool { progress.isOver.withLock { $0 } }
}
