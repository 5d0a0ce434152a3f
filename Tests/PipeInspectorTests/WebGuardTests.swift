import PipeInspector
import PipeRuntime
import Testing

@Suite("Access to the page's server")
struct WebGuardTests {
  private static let token = "0123456789abcdef"

  private static func accessControl(isReadOnly: Bool = false) -> WebGuard {
    WebGuard(
      hosts: WebHosts(own: ["127.0.0.1", "localhost"], port: 9470), token: token,
      isReadOnly: isReadOnly)
  }

  /// Returns an allowed request with these changes.
  private static func request(
    _ method: String = "GET", _ path: String = "/api/about", _ own: [String: String?] = [:]
  ) -> WebRequest {
    var headers = ["host": "127.0.0.1:9470", "authorization": "Bearer \(token)"]
    if method == "POST" { headers["content-type"] = "application/json" }
    for (name, value) in own { headers[name] = value }
    return WebRequest(method: method, path: path, headers: headers)
  }

  private static let own: [WebRequest] = [
    request(), request("POST", "/api/send"), request("GET", "/", ["authorization": nil]),
    request("GET", "/page.js", ["authorization": nil]),
    request("GET", "/api/about", ["host": "localhost:9470"]),
    request("GET", "/api/about", ["host": "LocalHost:9470"]),
    request("POST", "/api/send", ["origin": "http://127.0.0.1:9470"]),
    request("GET", "/api/about", ["sec-fetch-site": "same-origin"]),
    request("GET", "/", ["sec-fetch-site": "none", "authorization": nil]),
    request(
      "GET", "/", ["sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"]),
  ]

  @Test("A request from the served page is allowed with the page's token", arguments: own)
  func allowed(_ request: WebRequest) {
    #expect(Self.accessControl().refusal(of: request) == nil)
  }

  private static let others: [(WebRequest, Int)] = [
    (request("GET", "/", ["host": nil]), 421),
    (request("GET", "/", ["host": "evil.example"]), 421),
    (request("GET", "/", ["host": "evil.example:9470"]), 421),
    (request("GET", "/", ["host": "127.0.0.1"]), 421),
    (request("GET", "/", ["host": "127.0.0.1:9471"]), 421),
    (request("GET", "/", ["host": "127.0.0.1:9470.evil.example"]), 421),
    (request("GET", "/api/about", ["origin": "http://evil.example"]), 403),
    (request("GET", "/api/about", ["origin": "null"]), 403),
    (request("GET", "/api/about", ["origin": "https://127.0.0.1:9470"]), 403),
    (request("GET", "/page.js", ["sec-fetch-site": "cross-site"]), 403),
    (request("GET", "/page.js", ["sec-fetch-site": "same-site"]), 403),
    (request("GET", "/api/about", ["authorization": nil]), 401),
    (request("GET", "/api/about", ["authorization": "Bearer "]), 401),
    (request("GET", "/api/about", ["authorization": token]), 401),
    (request("GET", "/api/about", ["authorization": "Bearer 0123456789abcdeg"]), 401),
    (request("GET", "/api/about", ["authorization": "Bearer \(token)0"]), 401),
    (request("POST", "/api/send", ["content-type": "text/plain"]), 415),
    (request("POST", "/api/send", ["content-type": nil]), 415),
    (request("POST", "/"), 405), (request("DELETE", "/api/send"), 405),
  ]

  @Test(
    "A request with a wrong host, origin, token, content type or method is refused",
    arguments: others)
  func refused(_ request: WebRequest, _ status: Int) {
    #expect(Self.accessControl().refusal(of: request)?.status == status)
  }

  @Test("A read-only server refuses every request that changes something")
  func readOnly() {
    let accessControl = Self.accessControl(isReadOnly: true)
    for route in WebRoute.allCases {
      let refusal = accessControl.refusal(of: Self.request(route.method, route.path))
      #expect(refusal?.status == (route.onlyReads ? nil : 403), "\(route)")
    }
    #expect(accessControl.refusal(of: Self.request("POST", "/api/else"))?.status == 403)
  }

  @Test("Tokens are long and unique")
  func tokens() {
    let tokens = Set((0..<100).map { _ in WebGuard.makeToken() })
    #expect(tokens.count == 100 && tokens.allSatisfy { $0.count == 64 })
  }
}

/// Returns the status with which a request for this host is refused, or `nil` if it is allowed.
private func check(
  _ hosts: WebHosts, _ host: String, _ origin: String? = nil
) -> Int? {
  var headers = ["host": host]
  headers["origin"] = origin
  return WebGuard(hosts: hosts, token: "t", isReadOnly: false)
    .refusal(of: WebRequest(path: "/", headers: headers))?.status
}

@Suite("The host names of the page's server")
struct WebHostsTests {
  @Test("With TLS, pages have the https scheme, and port 443 is optional")
  func encrypted() {
    let hosts = WebHosts(
      own: ["192.0.2.1"], port: 443, others: ["Page.Example"], isEncrypted: true)
    #expect(check(hosts, "192.0.2.1", "https://192.0.2.1") == nil)
    #expect(check(hosts, "192.0.2.1:443", "https://192.0.2.1:443") == nil)
    #expect(check(hosts, "192.0.2.1", "http://192.0.2.1") == 403)
    #expect(check(hosts, "192.0.2.1:80") == 421)
    #expect(check(hosts, "page.example", "https://page.example") == nil)
    #expect(check(hosts, "page.example", "https://other.example") == 403)
  }

  @Test("An additional host name is allowed with any port, and matches exactly")
  func others() {
    let hosts = WebHosts(own: ["127.0.0.1"], port: nil, others: ["page.example", "[2001:db8::1]"])
    for host in ["127.0.0.1:8080", "127.0.0.1", "page.example:9", "[2001:db8::1]:443"] {
      #expect(check(hosts, host, "http://\(host)") == nil, "\(host)")
      #expect(check(hosts, host, "https://\(host)") == nil, "\(host)")
    }
    for host in [
      "", ":", "127.0.0.1:", "127.0.0.1:a", "127.0.0.1:80:80", "127.0.0.1.evil.example",
      "127.0.0.2",
      "evil.example", "page.example.evil.example:80", "page.example@evil.example", "[2001:db8::1",
      "[2001:db8::1]x", "[2001:db8::2]:443", "page.example:80, evil.example", " page.example",
    ] { #expect(check(hosts, host) == 421, "\(host)") }
    #expect(check(hosts, "page.example:9", "http://page.example:10") == 403)
    #expect(check(hosts, "page.example:9", "http://127.0.0.1:9") == 403)
  }
}

@Suite("The host names behind a proxy that adds TLS")
struct ProxiedHostsTests {
  /// A server at a port, and one at a socket.
  private static let places = [
    WebHosts(own: ["127.0.0.1"], port: 8080, others: ["page.example"]),
    WebHosts(own: ["127.0.0.1"], port: nil, others: ["page.example"]),
  ]

  @Test(
    "A host name of '--host' is allowed with or without port 443 in the Host and Origin headers",
    arguments: places)
  func proxied(_ hosts: WebHosts) {
    for host in ["page.example", "page.example:443", "Page.Example:443"] {
      #expect(check(hosts, host) == nil, "\(host)")
      #expect(check(hosts, host, "https://page.example") == nil, "\(host)")
    }
    #expect(check(hosts, "page.example:443", "https://page.example:443") == nil)
    #expect(check(hosts, "page.example:80", "http://page.example") == nil)
    for (host, origin) in [
      ("page.example:443", "http://page.example"), ("page.example:80", "https://page.example"),
      ("page.example:8443", "https://page.example"), ("page.example", "https://page.example:8443"),
      ("page.example:443", "https://page.example.evil.example"),
      ("page.example:443", "https://evil.example"), ("page.example:443", "https://"),
    ] { #expect(check(hosts, host, origin) == 403, "\(host) of \(origin)") }
    for host in ["evil.example", "evil.example:443", "page.example.evil.example:443", ":443"] {
      #expect(check(hosts, host, "https://\(host)") == 421, "\(host)")
    }
  }
}

@Suite("The requests of the page")
struct WebServiceTests {
  /// A data source that answers each query with the query itself.
  private struct Echo: PageDataSource {
    let recorder = InspectionRecorder(capacity: 1 << 20)

    func answer(_ question: InspectionRequest) async throws -> JSONValue {
      if question == .machine(node: "gone") {
        throw InspectionRequestError("no such node 'gone'")
      }
      return .string("\(question)")
    }
  }

  private static func answer(
    _ method: String = "GET", _ path: String, query: [String: String] = [:], body: String = "",
    from source: Echo = Echo()
  ) async -> WebResponse {
    let service = WebService(
      source,
      accessControl: WebGuard(
        hosts: WebHosts(own: ["localhost"], port: 80), token: "t", isReadOnly: false))
    return await service.answer(
      WebRequest(
        method: method, path: path, query: query,
        headers: [
          "host": "localhost", "authorization": "Bearer t", "content-type": "application/json",
        ],
        body: Array(body.utf8)))
  }

  @Test(
    "Every response restricts the scripts and sources that the page can use",
    arguments: ["/", "/page.js", "/api/about", "/x"])
  func headers(_ path: String) async {
    let headers = await Self.answer("GET", path).headers
    let policy = headers["Content-Security-Policy"] ?? ""
    #expect(policy.hasPrefix("default-src 'none';") && !policy.contains("unsafe"))
    #expect(
      headers["X-Content-Type-Options"] == "nosniff" && headers["Cache-Control"] == "no-store")
  }

  @Test("The page's files have at most 200 KB in total and refer to no other server")
  func page() async {
    var byteCount = 0
    let scripts = [
      "page", "text", "trace", "moment", "panels", "fold", "health", "graph", "timeline", "states",
      "act", "node", "sequence", "logs", "keys", "talk",
    ].map { "/\($0).js" }
    for path in ["/", "/page.css", "/icon.svg"] + scripts {
      let answer = await Self.answer("GET", path)
      #expect(answer.status == 200)
      byteCount += answer.body.count
      let text = String(decoding: answer.body, as: UTF8.self)
        .replacing("http://www.w3.org/2000/svg", with: "")
      #expect(!text.contains("http:") && !text.contains("https:") && !text.contains("//cdn"))
      for way in [
        "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style=",
      ] {
        #expect(!text.contains(way), "\(path): \(way)")
      }
    }
    #expect(byteCount < 200_000, "\(byteCount) bytes")
  }

  @Test(
    "Each query of the page is answered",
    arguments: [
      ("/api/machine", "machine(node: \\\"a b\\\")"),
      ("/api/enabled", "enabled(node: \\\"a b\\\")"),
      ("/api/state", "state(node: \\\"a b\\\")"),
      ("/api/dead-letters", "deadLetters(node: \\\"a b\\\")"),
    ])
  func questions(_ path: String, _ question: String) async {
    let answer = await Self.answer("GET", path, query: ["node": "a b"])
    #expect(answer.status == 200)
    #expect(String(decoding: answer.body, as: UTF8.self).contains(question), "\(answer)")
  }

  @Test("An invalid query is answered with the error, and the server continues")
  func mistakes() async {
    for (method, path, query, body, status) in [
      ("GET", "/api/machine", [:], "", 400), ("GET", "/api/machine", ["node": ""], "", 400),
      ("GET", "/api/machine", ["node": "gone"], "", 409),
      ("GET", "/api/else", ["node": "a"], "", 404),
      ("GET", "/api/changes", ["after": "-1"], "", 400),
      ("GET", "/api/changes", ["after": "a"], "", 400),
      ("POST", "/api/send", [:], "", 400), ("POST", "/api/send", [:], "[", 400),
      ("POST", "/api/send", [:], #"{"node":1,"event":"a"}"#, 400),
      ("POST", "/api/send", [:], #"{"node":"a"}"#, 400), ("POST", "/api/about", [:], "{}", 404),
      ("POST", "/api/dead-letter", [:], #"{"node":"a","id":-1,"drops":true}"#, 400),
      ("POST", "/api/dead-letter", [:], #"{"node":"a","id":1}"#, 400),
      ("POST", "/api/dead-letter", [:], #"{"node":"a","id":1,"drops":true}"#, 200),
      ("POST", "/api/send", [:], #"{"node":"a","event":{"go":{}}}"#, 200),
      ("GET", "/else", [:], "", 404),
    ] as [(String, String, [String: String], String, Int)] {
      let answer = await Self.answer(method, path, query: query, body: body)
      #expect(answer.status == status, "\(method) \(path) \(query) \(body): \(answer)")
    }
  }

  @Test("A query for changes waits until there is a change")
  func news() async throws {
    let source = Echo()
    source.recorder.append(["is": "life"])
    let whole = try JSONValue(parsing: await Self.answer("GET", "/api/changes", from: source).body)
    let cursor = try #require(whole["cursor"]?.string)
    #expect(whole["happened"] == [["is": "life"]])
    async let later = Self.answer("GET", "/api/changes", query: ["after": cursor], from: source)
    source.recorder.set("door", ["is": "state"])
    let news = try JSONValue(parsing: await later.body)
    #expect(news["standing"] == [["is": "state"]] && news["whole"] == false)
  }
}
