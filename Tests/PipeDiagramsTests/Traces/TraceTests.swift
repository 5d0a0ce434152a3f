import PipeMachines
import PipeDiagrams
import PipeWire
import Testing

@Suite("A trace of several nodes")
struct TraceTests {
  @Test(
    "A trace nests steps below their causes, by time, and groups the steps of synchronized events")
  func causes() throws {
    let trace = try House.recorder().trace
    #expect(trace.steps.map(\.node) == ["door", "display", "display", "left", "both", "right"])
    #expect(trace.steps.map(\.causeIndex) == [nil, 0, 1, nil, nil, nil])
    #expect(trace.steps.map(\.synchronizedEventIndex) == [nil, nil, nil, 0, 0, 0])
    let synchronizedEvent = try #require(trace.synchronizedEvents.first)
    #expect(
      trace.synchronizedEvents.count == 1 && synchronizedEvent.event == "meet"
        && synchronizedEvent.name == "both")
    #expect(synchronizedEvent.endTime - synchronizedEvent.startTime == 500_000)
    #expect(trace.missingStepCounts == ["door": 89])
  }

  @Test(
    "A followed step keeps its causes, its effects and its synchronized event, and nothing else",
    arguments: [
      ("door", 1, ["door", "display", "display"], [nil, 0, 1]),
      ("display", 8, ["door", "display", "display"], [nil, 0, 1]),
      ("display", 9, ["door", "display", "display"], [nil, 0, 1]),
      ("right", nil, ["left", "both", "right"], [nil, nil, nil]),
    ] as [(String, UInt64?, [String], [Int?])])
  func following(node: String, version: UInt64?, nodes: [String], causes: [Int?]) throws {
    let all = try House.recorder().trace
    let trace = all.following(try #require(all.index(ofStepOf: node, version: version)))
    #expect(trace.steps.map(\.node) == nodes)
    #expect(trace.steps.map(\.causeIndex) == causes)
    #expect(trace.synchronizedEvents.map(\.stepIndices) == (node == "right" ? [[0, 1, 2]] : []))
    #expect(all.index(ofStepOf: node, version: 77) == nil)
  }

  @Test("Transactions of two coordinators with the same number stay separate")
  func coordinators() throws {
    let plans = ["one", "two"].map { name in
      ConflictClassPlan(
        name: name, program: "nodes", durability: .volatile,
        composites: [
          CompositePlan(name: name, components: [], nodes: [name + "A"], vectors: [], events: [])
        ], components: [])
    }
    var recorder = TraceRecorder(topology: "t", nodes: ["oneA", "twoA"], classes: plans)
    for node in ["oneA", "twoA"] {
      let text =
        #"{"node":"\#(node)","incarnation":1,"version":1,"index":1,"time":1,"transaction":"1.1"}"#
      recorder.take(try JSONRecord.decode(NodeStep.self, from: Array(text.utf8)))
    }
    #expect(recorder.trace.synchronizedEvents.map(\.name) == ["oneA", "twoA"])
  }

  @Test(
    "A synchronized event in a trace has the name of the composite that committed the event",
    arguments: [
      ["fork", "seat2", "seat1"], ["seat2", "seat1"], ["fork"], ["seat1", "fork", "seat2"],
    ])
  func committer(followed: [String]) throws {
    func seat(_ name: String, _ event: String) throws -> CompositePlan {
      let vectors = #"[{"composite":"\#(name)","event":"\#(event)","participants":["fork"]}]"#
      return CompositePlan(
        name: name, components: ["fork"], nodes: ["fork"],
        vectors: try JSONRecord.decode([SyncVector].self, from: Array(vectors.utf8)), events: [])
    }
    var recorder = TraceRecorder(
      topology: "t", nodes: followed,
      classes: [
        ConflictClassPlan(
          name: "seat1", program: "nodes", durability: .volatile,
          composites: [try seat("seat1", "take"), try seat("seat2", "grab")], components: [])
      ])
    for (place, node) in followed.enumerated() {
      let cause = node == "fork" ? "seat1" : "take"
      let text =
        #"{"node":"\#(node)","incarnation":1,"version":1,"index":1,"time":\#(place),"cause":"\#(cause)","#
        + #""transaction":"1.1"}"#
      recorder.take(try JSONRecord.decode(NodeStep.self, from: Array(text.utf8)))
    }
    #expect(recorder.trace.synchronizedEvents.map(\.name) == ["seat1"])
    #expect(recorder.trace.synchronizedEvents.map(\.stepIndices.count) == [followed.count])
  }

  @Test("A text trace shows the steps with their causes")
  func text() throws {
    let lines = try House.written(.text).split(separator: "\n").map(String.init)
    #expect(
      lines == [
        "   0.000000  door     closed --open→ open(persons: 0)  (request 3 of client 7)",
        "   0.000250    display  dark --persons(count: 0)→ lit  (door.out->display.in 9)",
        "   0.002000      display  lit --fade→ dark  (effect of version 8)",
        "   0.003000  meet, synchronized by both  (transaction 3.17)",
        "   0.003000    left     a → b", #"   0.003500    right    x → y; "<b>""#,
        #"   0.003100    both     {"left":"a","right":"x"} → {"left":"b","right":"y"}"#,
        "door: 89 steps were not reported",
      ])
  }

  @Test("A Mermaid trace escapes characters with a meaning in Mermaid")
  func mermaid() throws {
    #expect(
      try House.written(.mermaid) == """
        sequenceDiagram
          actor client
          participant n1 as door
          participant n2 as display
          participant n3 as left
          participant n4 as right
          client->>n1: open [open(persons#58; 0)]
          n1->>n2: persons(count#58; 0) [lit]
          n2->>n2: fade [dark]
          Note over n3,n4: meet together<br/>left#58; b<br/>right#58; y#59; #34;#60;b#62;#34;

        """)
  }

  @Test("A Chromium trace has a slice per state, arrows with two ends, and one bar per transaction")
  func chrome() throws {
    let file = try JSONValue(parsing: House.written(.chrome).utf8)
    #expect(file["otherData"]?["untold"]?["door"] == 89)
    guard case .array(let all)? = file["traceEvents"] else {
      Issue.record("no events")
      return
    }
    func events(_ phase: String) -> [JSONValue] {
      all.filter { (event: JSONValue) -> Bool in event["ph"] == .string(phase) }
    }
    let names = events("M").filter { $0["name"] == "thread_name" }
      .compactMap { (event: JSONValue) -> JSONValue? in event["args"]?["name"] }
    let tracks: [JSONValue] = [
      "door", "display", "left", "right", "both", "synchronized: both",
    ]
    #expect(names == tracks)
    let states = events("X").filter { $0["cat"] == "state" }
    #expect(states.count == 6)
    let lit = try #require(states.first { $0["name"] == "lit" })
    #expect(lit["ts"] == 250 && lit["dur"] == 1750 && lit["tid"] == 2)
    let bar = try #require(events("X").first { $0["cat"] == "synchronized" })
    #expect(bar["name"] == "meet" && bar["dur"] == 500)
    #expect(bar["args"]?["nodes"] == ["left", "both", "right"])
    let (starts, ends) = (events("s"), events("f"))
    #expect(starts.count == 5 && ends.count == 5)
    for start in starts {
      let end = try #require(ends.first { $0["id"] == start["id"] })
      #expect(end["bp"] == "e" && end["name"] == start["name"])
    }
  }

  @Test("An OpenTelemetry trace has a span per step, below the span of its cause")
  func otlp() throws {
    let file = try JSONValue(parsing: House.written(.otlp).utf8)
    var spans: [JSONValue] = []
    var services: [JSONValue] = []
    guard case .array(let resources)? = file["resourceSpans"] else {
      Issue.record("no resources")
      return
    }
    for resource in resources {
      guard case .array(let attributes)? = resource["resource"]?["attributes"],
        case .array(let scopes)? = resource["scopeSpans"],
        case .array(let own)? = scopes.first?["spans"]
      else { continue }
      services += attributes.filter { $0["key"] == "service.name" }.compactMap {
        $0["value"]?["stringValue"]
      }
      spans += own
    }
    #expect(services == ["door", "display", "left", "right", "both", "synchronized: both"])
    #expect(spans.count == 7)
    let door = try #require(spans.first { $0["name"] == "open" })
    let display = try #require(spans.first { $0["name"] == "persons" })
    #expect(display["parentSpanId"] == door["spanId"] && display["traceId"] == door["traceId"])
    #expect(display["startTimeUnixNano"] == "1700000000000000000")
    #expect(display["endTimeUnixNano"] == "1700000000000250000")
    let fade = try #require(spans.first { $0["name"] == "fade" })
    #expect(fade["parentSpanId"] == display["spanId"] && fade["traceId"] == door["traceId"])
    #expect(display["kind"] == 5 && door["kind"] == 2 && door["parentSpanId"] == nil)
    let parts = spans.filter { $0["name"] == "meet" }
    let whole = try #require(parts.first { $0["parentSpanId"] == nil })
    #expect(parts.count == 4 || parts.count == 3)
    #expect(parts.allSatisfy { $0["traceId"] == whole["traceId"] })
    #expect(Set(spans.compactMap { $0["spanId"] }).count == 7)
    for span in spans {
      guard case .string(let id)? = span["spanId"], case .string(let trace)? = span["traceId"]
      else {
        Issue.record("\(span)")
        continue
      }
      #expect(id.count == 16 && trace.count == 32)
    }
  }

  @Test(
    "An OpenTelemetry trace contains a step even if a wrong clock puts it before its cause")
  func skewed() throws {
    var recorder = TraceRecorder(topology: "t", nodes: ["door", "display"])
    for text in House.reportedSteps.prefix(3) {
      var step = try JSONRecord.decode(NodeStep.self, from: Array(text.utf8))
      if step.node == "door" { step.time = step.time.map { $0 + 1_000_000 } }
      recorder.take(step)
    }
    #expect(recorder.trace.steps.map(\.causeIndex) == [1, nil, 0])
    var text = ""
    try TraceFormat.otlp.write(recorder.trace) { text += $0 }
    let traces = text.matches(of: /"traceId":"([0-9a-f]*)"/).map(\.1)
    #expect(traces.count == 3 && Set(traces).count == 1, "\(text)")
  }

  @Test("In a Chromium trace, arrows are numbered and are written after their slices")
  func arrows() throws {
    let file = try JSONValue(parsing: House.written(.chrome).utf8)
    guard case .array(let all)? = file["traceEvents"] else {
      Issue.record("no events")
      return
    }
    let phases = all.compactMap { $0["ph"]?.string }.joined()
    #expect(phases.firstIndex(of: "s")! > phases.lastIndex(of: "X")!, "\(phases)")
    #expect(
      all.filter { $0["ph"] == "s" }.map { $0["id"]?.integer } == [1, 2, 3, 4, 5])
  }

  @Test("Slices of a track in a Chromium trace do not overlap, however short they are")
  func slices() throws {
    var recorder = TraceRecorder(topology: "t", nodes: ["a"])
    for (version, time) in [(1, 0), (2, 400), (3, 400), (4, 5_000)] {
      let text =
        #"{"node":"a","incarnation":1,"version":\#(version),"index":\#(version),"time":\#(time)}"#
      recorder.take(try JSONRecord.decode(NodeStep.self, from: Array(text.utf8)))
    }
    var text = ""
    try TraceFormat.chrome.write(recorder.trace) { text += $0 }
    let lengths = text.matches(of: /"dur":([0-9.]*)/).map(\.1)
    #expect(lengths == ["0.4", "0.0", "4.6", "1.0"], "\(text)")
  }

  @Test("Steps over the limit of a trace are counted")
  func bounded() throws {
    var recorder = TraceRecorder(topology: "t", nodes: ["a"])
    let text = #"{"node":"a","incarnation":1,"version":1,"index":1,"time":1}"#
    let step = try JSONRecord.decode(NodeStep.self, from: Array(text.utf8))
    for _ in 0..<TraceRecorder.maximumStepCount + 5 { recorder.take(step) }
    #expect(recorder.stepCount == TraceRecorder.maximumStepCount)
    #expect(recorder.trace.missingStepCounts == ["a": 5])
  }
}
