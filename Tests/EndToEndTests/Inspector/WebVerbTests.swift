import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The verb 'inspector web'", .timed, .stallLimit(.seconds(120)))
struct WebVerbTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      button: { machine: Button, restart: { policy: on-failure, backoff: { initial: 10ms, max: 10ms } } }
      gate: { machine: Gate }
    pipes:
      - { from: button, when: pressed, to: gate, send: pass, name: visitors }
    """

  /// A client that behaves like the page at the printed address.
  struct Page {
    let inspector: InspectorProgram
    let token: String
    var cursor = "0"
    var topology: JSONValue = .null
    var states: [String: JSONValue] = [:]
    var events: [JSONValue] = []
    var logLines: [JSONValue] = []

    init(_ inspector: InspectorProgram) throws {
      self.inspector = inspector
      let address = try #require(inspector.program.outputText.split(separator: "#token=").last)
      token = String(address.prefix { $0 != "\n" })
    }

    func ask(_ path: String, _ body: JSONValue? = nil) async throws -> WebClient.Answer {
      var headers = ["Authorization": "Bearer \(token)"]
      if body != nil { headers["Content-Type"] = "application/json" }
      return try await inspector.client.get(
        path, body == nil ? "GET" : "POST", headers: headers, body: body?.text ?? "")
    }

    /// Reads and applies the next changes.
    mutating func update() async throws {
      let delta = try JSONValue(parsing: await ask("/api/changes?after=\(cursor)").body.utf8)
      cursor = delta["cursor"]?.string ?? ""
      guard case .array(let currentValues)? = delta["standing"],
        case .array(let steps)? = delta["happened"]
      else { throw UnexpectedResult("\(delta)") }
      for one in currentValues {
        if let node = one["node"]?.string { states[node] = one }
        if one["is"] == "topology" { topology = one }
      }
      events += steps
      if case .array(let lines)? = delta["written"] { logLines += lines }
    }

    /// Applies changes until the condition holds.
    mutating func await(_ what: String, _ accepts: (Page) -> Bool) async throws {
      for _ in 0..<600 where !accepts(self) { try await update() }
      #expect(accepts(self), "\(what): \(topology) \(states) \(events)")
    }

    func node(_ name: String) -> JSONValue? {
      guard case .array(let nodes)? = topology["nodes"] else { return nil }
      return nodes.first { $0["name"]?.string == name }
    }
  }

  @Test("The page shows states, steps and the origins of their events, and sends events")
  func page() async throws {
    try await DetachedTopology.with(Self.ward) { topology in
      let inspector = try await InspectorProgram(topology.tool, "web")
      var page = try Page(inspector)
      try await page.await("the states") {
        $0.states["gate"]?["case"] == "shut" && $0.states["button"] != nil && $0.node("gate") != nil
      }
      // At its start, the button has sent a visitor.
      try await topology.await("a letter") { $0[node: "gate"]?.status?.deadLetters == 1 }
      let opened = try await page.ask("/api/send", ["node": "gate", "event": "open"])
      #expect(opened.body == #"{"outcome":"accepted","state":{"open":{"passed":0}},"version":1}"#)
      // Steps before the subscription are not reported.
      func isReported(_ page: Page) -> Bool {
        page.events.contains { $0["node"] == "gate" && $0["source"]?["pipe"] == "visitors" }
      }
      for _ in 0..<600 where !isReported(page) {
        let pressed = try await page.ask("/api/send", ["node": "button", "event": "press"])
        #expect(pressed.status == 200)
        try await page.update()
      }
      #expect(isReported(page), "\(page.events)")
      #expect(try await page.ask("/api/enabled?node=gate").body.contains(#""verdict":"enabled""#))
      #expect(try await page.ask("/api/machine?node=gate").body.contains(#""alphabet""#))
      let deadLetters = try JSONValue(
        parsing: await page.ask("/api/dead-letters?node=gate").body.utf8)
      guard case .array(let list) = deadLetters, let id = list.first?["id"] else {
        Issue.record("no dead letter: \(deadLetters)")
        return
      }
      let dropped = try await page.ask(
        "/api/dead-letter", ["node": "gate", "id": id, "drops": true])
      #expect(dropped.body == #"{"outcome":"dropped"}"#)
      try await inspector.stop(topology.tool)
    }
  }

  @Test(
    "The page can send synchronized events and a single component's events to a composite")
  func composite() async throws {
    let lift = """
      topology: webbed
      program: nodes
      nodes:
        door: { machine: LiftDoor }
        motor: { machine: LiftMotor }
      composites:
        lift: { components: [door, motor], synchronize: { open: [door, motor], go: [door, motor] } }
      """
    try await DetachedTopology.with(lift) { topology in
      let inspector = try await InspectorProgram(topology.tool, "web")
      let page = try Page(inspector)
      let opened = try await page.ask("/api/send", ["node": "lift", "event": "open"])
      #expect(opened.body.contains(#""outcome":"committed""#))
      let closed = try await page.ask("/api/send", ["node": "lift", "event": "close"])
      #expect(
        closed.body.contains(#""outcome":"accepted""#) && closed.body.contains(#""version":2"#))
      try await inspector.stop(topology.tool)
    }
  }

  @Test("The page begins with the steps that the nodes' journals have recorded")
  func past() async throws {
    let yaml = """
      topology: gates
      program: TestNodes
      nodes: { gate: { machine: Gate } }
      """
    try await DetachedTopology.with(yaml, name: "gates") { topology in
      _ = try await topology.tool.run("send", "gate", "open", code: 0)
      let inspector = try await InspectorProgram(topology.tool, "web")
      var page = try Page(inspector)
      try await page.await("the gate's past") { page in
        page.events.contains { $0["node"] == "gate" && $0["recorded"] == 1 && $0["version"] == 1 }
      }
      let states = page.events.filter { $0["node"] == "gate" && $0["recorded"] != nil }
        .map { $0["state"]?.caseName }
      #expect(states == ["shut", "open"])
      try await inspector.stop(topology.tool)
    }
  }

  @Test("The page shows a killed node and a stopped topology again after their restart")
  func comesBack() async throws {
    try await DetachedTopology.with(Self.ward) { topology in
      let inspector = try await InspectorProgram(topology.tool, "web")
      var page = try Page(inspector)
      try await page.await("the node") { $0.node("button")?["running"] == true }
      try await topology.run("kill", "button")
      try await page.await("the next process") { page in
        page.node("button")?["restarts"] == 1 && page.node("button")?["running"] == true
          && page.events.contains { $0["is"] == "life" && $0["node"] == "button" }
      }
      try await topology.run("down")
      try await page.await("the end") { $0.topology["phase"] == "down" }
      #expect(try await page.ask("/api/enabled?node=gate").status == 409)
      try await topology.up()
      try await page.await("the next run") { $0.node("gate")?["running"] == true }
      try await inspector.stop(topology.tool)
    }
  }

  @Test("A read-only server refuses changes, missing tokens, foreign hosts and foreign origins")
  func safety() async throws {
    try await DetachedTopology.with(Self.ward) { topology in
      let inspector = try await InspectorProgram(topology.tool, "web", "--read-only")
      let page = try Page(inspector)
      let (client, own) = (inspector.client, "Bearer \(page.token)")
      #expect(try await client.get("/").status == 200)
      #expect(try await client.get("/api/about").status == 401)
      #expect(try await client.get("/", headers: ["Host": "evil.example"]).status == 421)
      let origin = try await client.get(
        "/api/about", headers: ["Authorization": own, "Origin": "http://evil.example"])
      #expect(origin.status == 403)
      #expect(try await page.ask("/api/about").body == #"{"readOnly":true}"#)
      #expect(try await page.ask("/api/send", ["node": "gate", "event": "open"]).status == 403)
      #expect(
        try await page.ask("/api/dead-letter", ["node": "gate", "id": 1, "drops": true]).status
          == 403)
      try await inspector.stop(topology.tool)
    }
  }
}
