import PipeTransport
import Testing

@Suite("An endpoint that is to be bound")
struct NetworkEndpointTests {
  @Test(
    "has a number in the place of a host's name, and is left as it is where there is none to find",
    arguments: [
      ("tcp://localhost:*", "tcp://127.0.0.1:*"), ("tcp://localhost:4711", "tcp://127.0.0.1:4711"),
      ("tcp://127.0.0.2:*", "tcp://127.0.0.2:*"), ("tcp://lo:*", "tcp://lo:*"),
      ("tcp://*:*", "tcp://*:*"), ("tcp://[::1]:*", "tcp://[::1]:*"),
      ("tcp://nowhere.invalid:*", "tcp://nowhere.invalid:*"), ("tcp://:*", "tcp://:*"),
      ("tcp:/localhost:*", "tcp:/localhost:*"), ("ipc:///run/a:1", "ipc:///run/a:1"), ("", ""),
    ])
  func resolved(endpoint: String, resolved: String) {
    #expect(NetworkEndpoint.resolved(endpoint) == resolved)
  }
}
