import Glibc
import PipeRuntimeTestKit
import PipeTransport
import PipeWire
import Testing

@Suite("A port that is reserved before a socket listens on it")
struct ReservedPortTests {
  /// Returns a port that was just released: the system does not assign it again so soon.
  private func port() throws -> String {
    let socket = try Socket(.router, in: Context(.few))
    defer { socket.close() }
    try socket.bind("tcp://127.0.0.1:*")
    return try #require(socket.lastEndpoint)
  }

  /// Reserves the port as soon as its former owner has closed it.
  private func take(_ endpoint: String) async throws -> ReservedPort {
    let port: ReservedPort? = try await poll(every: .milliseconds(5), within: .seconds(20)) {
      try? ReservedPort(endpoint)
    }
    return try #require(port)
  }

  @Test(
    "A reserved port is exclusive, and its early connections go to the socket that adopts the port")
  func handsOver() async throws {
    let endpoint = try port()
    let context = Context(.few)
    let port = try await take(endpoint)
    #expect(port.endpoint == endpoint)
    let taken = #expect(throws: TransportError.self) { try ReservedPort(endpoint) }
    #expect(taken?.code == EADDRINUSE && taken?.endpoint == endpoint)
    let client = try Socket(.dealer, in: context)
    defer { client.close() }
    try client.connect(endpoint)
    client.send(FrameHeader(.start))
    let server = try Socket(.router, in: context)
    defer { server.close() }
    try server.bind(port)
    #expect(server.lastEndpoint == endpoint)
    let hasCome: Bool? = try await poll(every: .milliseconds(5), within: .seconds(20)) {
      server.receive { _, bytes in #expect((try? FrameHeader(bytes))?.kind == .start) } ? true : nil
    }
    #expect(hasCome == true)
    // The port belongs to the socket now, and is released with it.
    #expect(throws: TransportError.self) {
      let other = try Socket(.router, in: context)
      defer { other.close() }
      try other.bind(port)
    }
  }

  @Test("A reserved port that is not adopted is released")
  func givesUp() async throws {
    let endpoint = try port()
    _ = try await take(endpoint)
    _ = try ReservedPort(endpoint)
  }

  @Test(
    "An invalid endpoint is refused",
    arguments: [
      "", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://here:80",
      "tcp://127.0.0.1:65536", "ipc:///tmp/x", "tcp://127.0.0:5x",
    ])
  func noEndpoint(text: String) {
    let refused = #expect(throws: TransportError.self) { try ReservedPort(text) }
    #expect(refused?.code == EINVAL && refused?.endpoint == text)
  }
}
