import Glibc
import PipeInspector
import PipeRuntime
import TestTraits
import Testing

@Suite("The web server", .timed, .stallLimit(.seconds(60)))
struct WebServerTests {
  /// Runs a server that echoes the request.
  private static func serving(
    _ limits: WebServer.Limits = .init(), _ body: (WebClient) async throws -> Void
  ) async throws {
    let listener = try WebListener(address: "127.0.0.1", port: 0)
    let client = WebClient(port: listener.port)
    let server = try WebServer(listener, limits: limits) { request in
      let query = request.query.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
      return WebResponse(
        200,
        "\(request.method) \(request.path) \(query.joined(separator: ";")) "
          + "\(request.headers["x-own"] ?? "-") \(request.body.count)")
    }
    try await body(client)
    server.stop()
  }

  @Test("The web server passes requests to its handler and returns the responses")
  func echo() async throws {
    try await Self.serving { client throws in
      let answer = try await client.get("/a%20b?x=1&y=%26&x=2", headers: ["X-Own": "one"])
      #expect(answer.status == 200 && answer.header("content-type") == "text/plain; charset=utf-8")
      #expect(answer.body.contains("GET /a b x=2;y=& one 0"))
      #expect(try await client.get("/", "POST", body: "12345").body.hasSuffix(" - 5\n"))
      #expect(try await client.get("/", "HEAD").body == "")
    }
  }

  @Test("The web server refuses a body over the limit")
  func body() async throws {
    var limits = WebServer.Limits()
    limits.bodyByteCount = 100
    try await Self.serving(limits) { client throws in
      let (fits, tooLarge) = (
        String(repeating: "a", count: 100), String(repeating: "a", count: 101)
      )
      #expect(try await client.get("/", "POST", body: fits).body.hasSuffix(" 100\n"))
      #expect(try await client.get("/", "POST", body: tooLarge).status == 413)
    }
  }

  @Test("The web server refuses malformed requests and requests with too many headers")
  func garbage() async throws {
    try await Self.serving { client throws in
      #expect(try await client.exchange("NONSENSE\r\n\r\n").status != 200)
      let long = String(repeating: "a", count: 100_000)
      #expect(try await client.get("/", headers: ["X-Own": long]).status / 100 == 4)
      #expect(try await client.get("/" + long).status / 100 == 4)
      #expect(try await client.get("/").status == 200)
    }
  }

  @Test(
    "The web server survives damaged requests and passes only valid ones to its handler",
    arguments: 1...4)
  func mutations(_ seed: UInt64) async throws {
    let listener = try WebListener(address: "127.0.0.1", port: 0)
    let client = WebClient(port: listener.port)
    var limits = WebServer.Limits()
    limits.bodyByteCount = 64
    // Some connections stay open until the server closes them.
    (limits.idleSeconds, limits.requestSeconds) = (1, 1)
    let taken = Locked<[WebRequest]>([])
    let server = try WebServer(listener, limits: limits) { request in
      taken.withLock { $0.append(request) }
      return WebResponse(200, "taken")
    }
    var requests = DamagedRequests(seed: seed)
    var statuses: [Int: Int] = [:]
    for _ in 0..<150 {
      let before = taken.withLock { $0.count }
      let answer = try await client.exchangeHalfClosed(requests.next())
      #expect(answer.status != 200 || taken.withLock { $0.count } > before, "\(answer)")
      statuses[answer.status, default: 0] += 1
    }
    // The possible statuses: closed without a response (0), continued, accepted, or refused.
    let expected: Set = [0, 100, 200, 400, 411, 413, 414, 417, 431, 500, 501, 505]
    #expect(expected.isSuperset(of: statuses.keys), "\(statuses)")
    #expect(statuses[200, default: 0] > 20 && statuses[400, default: 0] > 20, "\(statuses)")
    #expect(taken.withLock { $0.allSatisfy { $0.body.count <= 64 } })
    #expect(try await client.get("/").body == "taken\n")
    server.stop()
  }

  @Test("The web server closes idle connections")
  func idle() async throws {
    var limits = WebServer.Limits()
    limits.idleSeconds = 1
    try await Self.serving(limits) { client throws in
      let idle = try await client.begin("GET / HTTP/1.1\r\nHos")[0]
      #expect(try await client.get("/").status == 200)
      #expect(try await idle.readAll() == "")
    }
  }

  @Test("The web server closes a connection whose request does not arrive completely in time")
  func slowRequest() async throws {
    var limits = WebServer.Limits()
    limits.requestSeconds = 1
    try await Self.serving(limits) { client throws in
      let slow = try await SlowClients(1, of: client)
      #expect(try await slow.connections[0].readAll() == "")
      #expect(!slow.haveSentAll)
    }
  }

  @Test(
    "The web server answers at once, however many clients are slow to send their requests",
    arguments: [WebServer.Limits(), MetricsService.limits])
  func slowClients(_ limits: WebServer.Limits) async throws {
    var limits = limits
    // With this limit, no request times out, so other clients are served only if slow clients are
    // disconnected.
    limits.requestSeconds = 3_600
    limits.idleSeconds = 3_600
    try await Self.serving(limits) { client throws in
      let slow = try await SlowClients(80, of: client)
      for _ in 0..<3 { #expect(try await client.get("/").status == 200) }
      #expect(!slow.haveSentAll)
    }
  }

  @Test("Clients that are slow to send requests displace neither waiting clients nor slow readers")
  func patient() async throws {
    let (gate, opener) = AsyncStream.makeStream(of: Void.self)
    let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
    let large = String(repeating: "a", count: 4 << 20)
    let listener = try WebListener(address: "127.0.0.1", port: 0)
    let client = WebClient(port: listener.port)
    var limits = WebServer.Limits()
    // On a busy machine the reader may wait long for its turn.
    limits.idleSeconds = 3_600
    let server = try WebServer(listener, limits: limits) { request in
      guard request.path == "/wait" else { return WebResponse(200, large) }
      arrived.yield()
      for await _ in gate { break }
      return WebResponse(200, "late")
    }
    async let late = client.get("/wait")
    for await _ in arrivals { break }
    let reader = try await client.begin(
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")[0]
    var read = try #require(try await reader.read(100)).count
    let slow = try await SlowClients(40, of: client)
    #expect(try await client.get("/", "HEAD").status == 200)
    while let more = try await reader.read(64 << 10) { read += more.count }
    #expect(read > large.utf8.count)
    opener.finish()
    #expect(try await late.body == "late\n")
    #expect(!slow.haveSentAll)
    server.stop()
  }

  @Test("The web server answers at once, however many clients do not read their responses")
  func deaf() async throws {
    let large = String(repeating: "a", count: 8 << 20)
    let listener = try WebListener(address: "127.0.0.1", port: 0)
    let client = WebClient(port: listener.port)
    var limits = WebServer.Limits()
    limits.idleSeconds = 3_600
    let server = try WebServer(listener, limits: limits) { request in
      WebResponse(200, request.path == "/" ? "small" : large)
    }
    let deaf = try await client.begin(
      "GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", times: 80)
    for _ in 0..<3 { #expect(try await client.get("/").body == "small\n") }
    withExtendedLifetime(deaf) {}
    server.stop()
  }

  @Test(
    "While a client waits, other clients are answered; stopping the web server ends the wait")
  func waiting() async throws {
    let (gate, opener) = AsyncStream.makeStream(of: Void.self)
    let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
    let listener = try WebListener(address: "127.0.0.1", port: 0)
    let client = WebClient(port: listener.port)
    let server = try WebServer(listener) { request in
      guard request.path == "/wait" else { return WebResponse(200, "other") }
      arrived.yield()
      for await _ in gate { break }
      return WebResponse(200, "late")
    }
    async let late = client.get("/wait")
    for await _ in arrivals { break }
    #expect(try await client.get("/").body == "other\n")
    server.stop()
    #expect(try await late.status != 200)
    opener.finish()
  }

  @Test("A listener that cannot be opened causes an error with the reason")
  func listening() throws {
    let first = try WebListener(address: "127.0.0.1", port: 0)
    let port = first.port
    let refused = #expect(throws: WebListenerError.self) {
      _ = try WebListener(address: "127.0.0.1", port: port)
    }
    guard case .inUse("127.0.0.1", port, let process?)? = refused else {
      Issue.record("\(String(describing: refused))")
      return
    }
    #expect(process.pid == Int(getpid()) && "\(refused!)".contains("by process \(process.pid), '"))
    #expect("\(refused!)".contains("--port"))
    withExtendedLifetime(first) {}
    #expect(throws: WebListenerError.invalidAddress("localhost")) {
      _ = try WebListener(address: "localhost", port: 0)
    }
    #expect(throws: WebListenerError.addressNotLocal("203.0.113.7")) {
      _ = try WebListener(address: "203.0.113.7", port: 0)
    }
    #expect("\(WebListenerError.inUse(address: "::1", port: 9, by: nil))".contains("ss -ltnp"))
  }

  /// A source that is queried once for each request.
  private struct Still: SnapshotSource {
    func snapshot() async -> TopologySnapshot {
      TopologySnapshot(topology: "shop", directory: .failure(.init("gone")))
    }
  }

  @Test(
    "Metrics are served only for GET and HEAD requests to '/' and '/metrics'",
    arguments: [
      ("GET", "/metrics", 200), ("HEAD", "/metrics", 200), ("POST", "/metrics", 405),
      ("GET", "/", 200), ("GET", "/metrics/x", 404), ("GET", "/favicon.ico", 404),
    ])
  func metrics(_ method: String, _ path: String, _ status: Int) async {
    let answer = await MetricsService(Still()).answer(WebRequest(method: method, path: path))
    #expect(answer.status == status)
    #expect(method != "POST" || answer.headers["Allow"] == "GET, HEAD")
  }

  @Test("Metrics are served in the preferred format")
  func format() async {
    for (accept, format) in [
      ("application/openmetrics-text", MetricFormat.openMetrics), ("text/plain", .prometheus),
    ] {
      let answer = await MetricsService(Still()).answer(
        WebRequest(path: "/metrics", headers: ["accept": accept]))
      #expect(answer.headers["Content-Type"] == format.contentType)
      #expect(
        String(decoding: answer.body, as: UTF8.self).contains("piperuntime_up{topology=\"shop\"} 0")
      )
    }
  }
}
