import PipeInspector
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Attacks on an inspector", .timed, .stallLimit(.seconds(120)))
struct WebSecurityTests {
  private static let attack = "<img src=x onerror=alert(1)>"
  private static let yaml = """
    topology: gates
    program: TestNodes
    nodes:
      gate: { machine: Gate }
      blob: { machine: Blob }
      sign: { constant: { notice: { text: "\(attack)" } } }
    """

  /// Runs an inspector's page and calls back with it.
  private static func serving(
    _ options: [String] = [], _ body: (DetachedTopology, InspectorProgram) async throws -> Void
  ) async throws {
    try await DetachedTopology.with(yaml, name: "gates") { topology in
      let inspector = try await InspectorProgram(topology.tool, ["web"] + options)
      try await body(topology, inspector)
      #expect(inspector.program.exit == nil)
      try await inspector.stop(topology.tool)
    }
  }

  /// Sends the page's request, with these headers replaced.
  private static func ask(
    _ route: WebRoute, of inspector: InspectorProgram, _ headers: [String: String] = [:]
  ) async throws -> WebClient.Answer {
    var own = ["Authorization": "Bearer \(inspector.token)", "Content-Type": "application/json"]
    own.merge(headers) { _, new in new }
    return try await inspector.client.get(
      route.path + (route.method == "GET" ? "?node=gate" : ""), route.method, headers: own,
      body: route.method == "GET" ? "" : #"{"node":"gate","event":"open","id":1,"drops":true}"#)
  }

  @Test(
    "Every route refuses requests without the token, with a foreign host, or from a foreign page"
  )
  func foreign() async throws {
    try await Self.serving { topology, inspector throws in
      let before = try await topology.directory()[node: "gate"]?.status?.version
      for route in WebRoute.allCases {
        for (headers, status) in [
          (["Authorization": ""], 401), (["Authorization": "Bearer 0"], 401),
          (["Host": "evil.example"], 421), (["Host": "127.0.0.1"], 421),
          (["Origin": "http://evil.example"], 403), (["Origin": "null"], 403),
          (["Sec-Fetch-Site": "cross-site"], 403),
        ] {
          let answer = try await Self.ask(route, of: inspector, headers)
          #expect(answer.status == status, "\(route) \(headers): \(answer)")
          #expect(answer.header("access-control-allow-origin") == nil)
        }
      }
      for route in WebRoute.allCases where route.method == "POST" {
        let form = ["Content-Type": "text/plain"]
        #expect(try await Self.ask(route, of: inspector, form).status == 415)
      }
      #expect(try await topology.directory()[node: "gate"]?.status?.version == before)
    }
  }

  @Test("A read-only inspector refuses every route that changes something")
  func readOnly() async throws {
    try await Self.serving(["--read-only"]) { topology, inspector throws in
      let before = try await topology.directory()[node: "gate"]?.status?.version
      for route in WebRoute.allCases where !route.onlyReads {
        #expect(try await Self.ask(route, of: inspector).status == 403, "\(route)")
      }
      #expect(try await topology.directory()[node: "gate"]?.status?.version == before)
      #expect(try await Self.ask(.enabled, of: inspector).status == 200)
    }
  }

  @Test("Slow clients do not block the page or the metrics", arguments: ["web", "metrics"])
  func slow(_ verb: String) async throws {
    try await DetachedTopology.with(Self.yaml, name: "gates") { topology in
      let inspector = try await InspectorProgram(topology.tool, [verb])
      let slow = try await SlowClients(80, of: inspector.client)
      for _ in 0..<3 {
        #expect(try await inspector.client.get(verb == "web" ? "/" : "/metrics").status == 200)
      }
      #expect(!slow.haveSentAll)
      try await inspector.stop(topology.tool)
    }
  }

  @Test("Markup in the values of states reaches the page only as text in JSON")
  func markup() async throws {
    try await Self.serving { topology, inspector throws in
      let response: WebClient.Answer? = try await poll(
        every: .milliseconds(20), within: .seconds(60)
      ) {
        let answer = try await Self.ask(.changes, of: inspector)
        return answer.body.contains("<img") ? answer : nil
      }
      let answer = try #require(response)
      #expect(answer.header("content-type") == "application/json; charset=utf-8")
      #expect(answer.header("x-content-type-options") == "nosniff")
      let policy = answer.header("content-security-policy") ?? ""
      #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe"))
      #expect(try JSONValue(parsing: answer.body.utf8).text.contains(Self.attack))
    }
  }

  @Test("For a state of 1 MiB, the page gets the size of the state and not its value")
  func large() async throws {
    try await Self.serving { topology, inspector throws in
      try await topology.run("send", "blob", #"{"grow":{"byteCount":1048500}}"#)
      let response: WebClient.Answer? = try await poll(
        every: .milliseconds(20), within: .seconds(60)
      ) {
        let answer = try await Self.ask(.changes, of: inspector)
        return answer.body.contains(#""large":10485"#) ? answer : nil
      }
      #expect(try #require(response).body.utf8.count < 100_000)
    }
  }
}
