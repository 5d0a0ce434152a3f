import PipeTransport
import Testing

@Suite("An endpoint to bind")
struct NetworkEndpointTests {
  @Test(
    "A host name is replaced by its address, and an endpoint without a host name stays unchanged",
    arguments: [
      ("tcp://localhost:*", "tcp://127.0.0.1:*"), ("tcp://localhost:4711", "tcp://127.0.0.1:4711"),
      ("tcp://127.0.0.2:*", "tcp://127.0.0.2:*"), ("tcp://lo:*", "tcp://lo:*"),
      ("tcp://*:*", "tcp://*:*"), ("tcp://[::1]:*", "tcp://[::1]:*"),
      ("tcp://nowhere.invalid:*", "tcp://nowhere.invalid:*"), ("tcp://:*", "tcp://:*"),
      ("tcp:/localhost:*", "tcp:/localhost:*"), ("ipc:///run/a:1", "ipc:///run/a:1"), ("", ""),
    ])
  func resolved(endpoint: String, resolved: String) {
    #expect(NetworkEndpoint.resolvedEndpoint(endpoint) == resolved)
  }
}
