import PipeRuntime
import TestTraits
import Testing
import orchestrator

@Suite("State and event arguments", .timed)
struct StateArgumentTests {
  @Test(
    "An event argument is a bare label or JSON",
    arguments: [
      ("closed", "closed"), ("_x1", "_x1"), (#""closed""#, "closed"),
      (#" {"closing": {"persons": 3}}"#, ["closing": ["persons": 3]]),
      (#"{"closed":{}}"#, ["closed": [:]]),
    ] as [(String, JSONValue)])
  func event(text: String, json: JSONValue) throws {
    #expect(try CaseArgument.parse(text, noun: "event") == json)
  }

  @Test(
    "An argument that is neither a label nor JSON causes an error with an example",
    arguments: [
      ("", "is neither a label nor JSON"), ("two words", ""), ("call(floor: 3)", ""), ("3", ""),
      (#"{"call""#, "is not valid JSON"), ("[1]", "is JSON, but not an event"),
      (#"{"call":3}"#, ""), (#"{"a":{},"b":{}}"#, ""), (#""two words""#, ""),
    ])
  func problems(text: String, message: String) throws {
    let error = try #require(throws: CommandError.self) {
      try CaseArgument.parse(text, noun: "event")
    }
    #expect(error.code == .usage)
    #expect(error.message.hasPrefix("'\(text)' "), "\(error)")
    #expect(message.isEmpty || error.message.contains(message), "\(error)")
    #expect(error.message.contains(#"{"closing":{"persons":3}}"#))
  }

  @Test(
    "JSON that is not a valid event causes an error with the reason",
    arguments: [
      (
        #"{"b":{},"a b":1}"#,
        "the object must have one key, the label with its fields inside, but has 2 keys: 'a b', 'b'"
      ),
      (#"{"a":1,"b":1,"c":1,"d":1}"#, "but has 4 keys: 'a', 'b', 'c', …"),
      (#"{"call":3}"#, "the value of 'call' is not an object of fields"), ("[1]", "not an object"),
      ("{}", "the object has no label"), (#"{"a b":{}}"#, "'a b' is not a valid label"),
      (
        #"{"call":{"floor":99999999999999999999}}"#,
        "99999999999999999999 in '{\"call\":{\"floor\":99999999999999999999}}' is out of range: "
          + "integers range from -9223372036854775808 to 9223372036854775807"
      ),
    ])
  func reasons(text: String, message: String) throws {
    let error = try #require(throws: CommandError.self) {
      try CaseArgument.parse(text, noun: "event")
    }
    #expect(error.code == .usage)
    #expect(error.message.contains(message), "\(error.message)")
  }

  @Test(
    "A label as a condition matches any field values, and JSON matches only equal field values",
    arguments: [
      ("door=closing", #"{"closing":{"persons":3}}"#, true),
      ("door=closed", #""closed""#, true), ("door=closed", #"{"closed":{}}"#, true),
      ("door=closed", #"{"closing":{"persons":3}}"#, false),
      (#"door={"closed":{}}"#, #""closed""#, true),
      (#"door={"closing":{"persons":3}}"#, #"{"closing":{"persons":3}}"#, true),
      (#"door={"closing":{"persons":3}}"#, #"{"closing":{"persons":4}}"#, false),
      (#"door={"closing":{}}"#, #"{"closing":{"persons":4}}"#, false),
    ])
  func matches(condition: String, state: String, isMatch: Bool) throws {
    let state = try JSONValue(parsing: state.utf8)
    #expect(try NodeCondition(condition).state.matches(state) == isMatch)
  }

  @Test(
    "A condition on a struct compares only the named fields, and a bare label matches any values",
    arguments: [
      (#"pages={"page":2}"#, true), (#"pages={"page":3}"#, false),
      (#"pages={"page":2,"status":"failed"}"#, true), (#"pages={"status":"idle"}"#, false),
      (#"pages={"status":{"failed":{"_0":"x"}}}"#, true),
      (#"pages={"status":{"failed":{"_0":"y"}}}"#, false), (#"pages={"batch":null}"#, true),
    ])
  func matchesStruct(condition: String, isMatch: Bool) throws {
    var condition = try NodeCondition(condition)
    condition.state.fields = ["batch", "page", "status"]
    let state: JSONValue = ["page": 2, "status": ["failed": ["_0": "x"]]]
    #expect(condition.state.matches(state) == isMatch)
  }

  @Test(
    "A condition must have the form NODE=STATE",
    arguments: ["door", "=closed", "door=", "door=a b"])
  func malformed(text: String) throws {
    let error = try #require(throws: CommandError.self) { try NodeCondition(text) }
    #expect(error.code == .usage)
  }

  @Test("A condition stays met after its first match, and a failure shows each node's state")
  func conditions() throws {
    func change(_ node: String, _ state: JSONValue) -> StateChange {
      StateChange(node: node, incarnation: 1, version: 1, time: 0, cause: "effect", state: state)
    }
    var conditions = NodeConditions(
      try ["door=closed", "motor=moving", "door=open"].map { try NodeCondition($0) })
    func take(_ change: StateChange) -> Bool { conditions.take(change) }
    #expect(!take(change("door", "closed")))
    #expect(!take(change("door", ["closing": ["persons": 1]])))
    #expect(
      conditions.unmetDescription()
        == "'motor' has not reported a state yet, not in moving; 'door' is in "
        + "closing(persons: 1), not in open")
    #expect(
      conditions.unmetDescription(downReasons: ["motor": "is failed"])
        .hasPrefix("'motor' is failed, not in moving"))
    // The orchestrator's states are used for nodes without a reported change. A reported change is
    // newer.
    #expect(
      conditions.unmetDescription(states: ["motor": ["idle": ["floor": 2]], "door": "open"])
        == "'motor' is in idle(floor: 2), not in moving; "
        + "'door' is in closing(persons: 1), not in open")
    #expect(!take(change("door", "open")))
    #expect(take(change("motor", ["moving": ["to": 1]])))
    #expect(conditions.changes.map(\.state) == ["closed", ["moving": ["to": 1]], "open"])
  }

  @Test("Each state change is one line that also shows the number of missed changes")
  func line() {
    var change = StateChange(
      node: "door", incarnation: 1, version: 7, time: 1_500_000_000, cause: "effect",
      state: ["closing": ["persons": 3]])
    #expect(
      change.line(nodeWidth: 6) == "1970-01-01T00:00:01.500Z door    closing(persons: 3)  (effect)")
    change.missedCount = 2
    #expect(change.line(nodeWidth: 4).hasSuffix("(effect; 2 missed before)"))
    #expect(change.record["time"] == "1970-01-01T00:00:01.500Z" && change.record["missed"] == 2)
  }

  @Test("A node's row shows its state, or the reason why the node has no state")
  func rows() throws {
    var node = NodeInformation(
      name: "door", kind: .machine, hosts: "Door", program: "/bin/nodes", phase: "running",
      isRunning: true, inbox: "", feed: "")
    node.incarnation = 5
    node.restarts = 2
    node.pid = 12
    node.startedAt = 1_000_000_000
    node.status = NodeStatus()
    node.status?.state = ["closing": ["persons": 3]]
    node.status?.events = 9
    let row = NodeRow(
      node: "door", phase: "running", state: "closing(persons: 3)",
      process: NodeRow.Process(pid: 12, uptime: .seconds(2), events: 9, restarts: 2),
      durability: .volatile, version: 0)
    #expect([node].rows(now: 3_000_000_000) == [row])
    let record = node.record(now: 3_000_000_000)
    #expect(record["uptime"] == .number(2) && record["started"] == "1970-01-01T00:00:01.000Z")
    #expect(record["machine"] == "Door" && record["running"] == true && record["events"] == 9)
    node.status?.state = nil
    node.phase = "failed"
    node.reason = "ended with exit code 1"
    #expect(node.stateText == "ended with exit code 1")
    node.reason = nil
    #expect(node.stateText.isEmpty)
  }
}
