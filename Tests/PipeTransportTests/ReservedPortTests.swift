import Glibc
import PipeRuntimeTestKit
import PipeTransport
import PipeWire
import Testing

@Suite("A port that is taken before a socket listens there")
struct ReservedPortTests {
  /// A port that was just left: nobody else gets it so soon.
  private func port() throws -> String {
    let socket = try Socket(.router, in: Context(.few))
    defer { socket.close() }
    try socket.bind("tcp://127.0.0.1:*")
    return try #require(socket.lastEndpoint)
  }

  /// Takes it as soon as its last owner has closed it.
  private func take(_ endpoint: String) async throws -> ReservedPort {
    let port: ReservedPort? = try await poll(every: .milliseconds(5), within: .seconds(20)) {
      try? ReservedPort(endpoint)
    }
    return try #require(port)
  }

  @Test("nobody else gets it, and who has connected meanwhile is read by the socket that gets it")
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
    // It is the socket's now, and given up with it.
    #expect(throws: TransportError.self) {
      let other = try Socket(.router, in: context)
      defer { other.close() }
      try other.bind(port)
    }
  }

  @Test("one that nobody takes is given up")
  func givesUp() async throws {
    let endpoint = try port()
    _ = try await take(endpoint)
    _ = try ReservedPort(endpoint)
  }

  @Test(
    "an endpoint that is none is refused",
    arguments: [
      "", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://here:80",
      "tcp://127.0.0.1:65536", "ipc:///tmp/x", "tcp://127.0.0:5x",
    ])
  func noEndpoint(text: String) {
    let refused = #expect(throws: TransportError.self) { try ReservedPort(text) }
    #expect(refused?.code == EINVAL && refused?.endpoint == text)
  }
}
