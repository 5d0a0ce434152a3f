import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The verb 'why'", .timed)
struct WhyVerbTests {
  /// An argument list, the exit code, and all of standard output.
  private typealias Call = (arguments: [String], code: Int32, output: String)

  private func expect(_ calls: [Call], of topology: TopologyHarness) async throws {
    let tool = CommandLineTool(beside: topology)
    for call in calls {
      let result = try await tool.result(of: tool.start(["why"] + call.arguments))
      #expect(result.code == call.code, "\(call.arguments): \(result)")
      #expect(result.output == call.output, "\(call.arguments): \(result)")
      #expect(result.error == "", "\(call.arguments): \(result)")
    }
  }

  @Test("'why' shows all events or one event in detail, and the exit code depends on the verdict")
  func text() async throws {
    try await withTopology(ExampleTopology.slowLift()) { topology in
      try await topology.expectEnabled("open", of: "lift")
      try await expect(
        [
          (
            ["motor"], 0,
            """
            motor  machine  standing(floor: 0)  (version 0)
              EVENT           ENABLED        TAKEN BY           BECAUSE
              go(floor: Int)  by its values  lift: door, motor  'motor' is in standing(floor: 0): \
            depends on the event's values
              open            yes            lift: door, motor
              floorReached    no             motor              the state has no transition for the event
              emergencyStop   yes            lift: door, motor
              reset           no             lift: door, motor  'door' is in closed: the state has \
            no transition for the event; 'motor' is in standing(floor: 0): the state has no transition for the event

            """
          ),
          (
            ["lift", "open"], 0,
            """
            lift: open through composite lift: enabled
              PARTICIPANT  TAKES IT  STATE               VERSION  BECAUSE
              door         yes       closed                    0
              motor        yes       standing(floor: 0)        0

            """
          ),
          (
            ["lift", "go"], 5,
            """
            lift: go(floor: Int) through composite lift: depends on its values; give EVENT with values
              PARTICIPANT  TAKES IT       STATE               VERSION  BECAUSE
              door         yes            closed                    0
              motor        by its values  standing(floor: 0)        0  depends on the event's values

            """
          ),
          (
            ["lift", #"{"go":{"floor":0}}"#], 4,
            """
            lift: go(floor: Int) through composite lift: blocked
              PARTICIPANT  TAKES IT  STATE               VERSION  BECAUSE
              door         yes       closed                    0
              motor        no        standing(floor: 0)        0  the transition's guard is false

            """
          ),
          (
            ["door", "close"], 4,
            """
            door: close: blocked
              PARTICIPANT  TAKES IT  STATE   VERSION  BECAUSE
              door         no        closed        0  the state has no transition for the event

            """
          ),
          (
            ["lift", #"{"go":{"floor":0}}"#, "-o", "jsonl"], 4,
            #"{"answers":[{"because":"","participant":"door","reason":null,"state":"closed","#
              + #""verdict":"enabled","version":0},"#
              + #"{"because":"the transition's guard is false","participant":"motor","#
              + #""reason":"guard","state":{"standing":{"floor":0}},"verdict":"blocked","#
              + #""version":0}],"composite":"lift","event":"go","#
              + #""fields":[{"name":"floor","type":"Int"}],"name":"lift","#
              + #""participants":["door","motor"],"verdict":"blocked"}"# + "\n"
          ),
        ], of: topology)
    }
  }

  @Test("'why -o json' writes all events as one JSON object")
  func json() async throws {
    try await withTopology(ExampleTopology.slowLift()) { topology in
      let tool = CommandLineTool(beside: topology)
      try await topology.expectEnabled("open", of: "lift")
      let result = try await tool.run("why", "door", "-o", "json", code: 0)
      let record = try JSONValue(parsing: result.output.utf8)
      #expect(record["name"] == "door" && record["kind"] == "machine")
      #expect(record["state"] == "closed" && record["version"] == 0)
      guard case .array(let events)? = record["events"] else {
        throw UnexpectedResult("events, not \(result)")
      }
      let verdicts = events.map { "\($0["event"]?.string ?? "") \($0["verdict"]?.string ?? "")" }
      #expect(
        verdicts == [
          "enter blocked", "go dependsOnValue", "open enabled", "close blocked",
          "emergencyStop enabled", "reset blocked",
        ])
    }
  }

  @Test("'why' has different errors for an unknown event, an unknown node and a missing topology")
  func errors() async throws {
    try await withTopology(ExampleTopology.slowLift()) { topology in
      let tool = CommandLineTool(beside: topology)
      let event = try await tool.run("why", "lift", "opn", code: 2)
      #expect(event.error.contains(Suggestion.hint("open")), "\(event)")
      let node = try await tool.run("why", "lft", code: 2)
      #expect(node.error.contains(Suggestion.hint("lift")), "\(node)")
      try await tool.run("why", "lift", "{", code: 2)
    }
    let alone = try CommandLineTool()
    defer { alone.remove() }
    let none = try await alone.run("why", "lift")
    #expect(none.code == 3 && none.output == "", "\(none)")
  }
}
