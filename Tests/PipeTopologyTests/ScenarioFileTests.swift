import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire
import Testing

@Suite("Scenario files")
struct ScenarioFileTests {
  private static let whole = Scenario(
    name: "lift-deadlock-1", topology: "../lift.yaml", demonstratedFinding: "deadlock",
    steps: [
      ScenarioStep(
        .takes(owner: "lift", event: ["go": ["floor": 3]], from: .outside),
        .states(["door": "closed", "motor": ["moving": ["from": 0, "to": 3]]])),
      ScenarioStep(
        .takes(
          owner: "motor", event: "brakesApplied", from: .effect(node: "motor", output: "brake"))),
      ScenarioStep(
        .takes(owner: "lift", event: "open", from: .effect(node: "door", output: "close"))),
      ScenarioStep(
        .takes(owner: "door", event: "start", from: .pipe("door:closed->motor:start")),
        .refused(node: "door", reason: "guard")),
      ScenarioStep(
        .takes(owner: "door", event: "start", from: .outside), .refused(node: nil, reason: "thrown")
      ),
      ScenarioStep(.sends(node: "motor", event: ["go": ["floor": 1]], into: "motor.out->door.in")),
      ScenarioStep(.takes(owner: "door", event: "trap", from: .outside), .processEnds),
      ScenarioStep(.fires(node: "door", after: "1 min 30 s"), .states(["door": "closed"])),
      ScenarioStep(.fires(node: "door", after: nil)),
      ScenarioStep(.crash(node: "door"), .states(["door": ["open": ["text": "a$b${x}"]]])),
    ], end: ["door": "closed"], pipes: ["a->b": ["x", ["y": ["z": [1, .null]]]], "c": []])

  @Test("A written scenario is read as an equal scenario")
  func roundTrip() throws {
    let text = Self.whole.yaml
    #expect(try ScenarioFile.read(text: Array(text.utf8), file: "s.yaml").scenario == Self.whole)
    let json = Self.whole.json.text
    #expect(try ScenarioFile.read(text: Array(json.utf8), file: "s.yaml").scenario == Self.whole)
  }

  @Test("A step without an origin comes from outside")
  func short() throws {
    let text = "scenario: s\ntopology: t.yaml\nsteps:\n  - { at: door, takes: open }\n"
    let scenario = try ScenarioFile.read(text: Array(text.utf8), file: "s.yaml").scenario
    #expect(
      scenario.steps == [ScenarioStep(.takes(owner: "door", event: "open", from: .outside))])
  }

  @Test("A refusal reason with a message is written as its keyword")
  func reasons() throws {
    let reasons = [
      ("thrown: no paper", "thrown"), ("stateTooLarge", "stateTooLarge"),
      ("no such field", "undecodable"),
    ]
    for (reason, word) in reasons {
      var scenario = Scenario(name: "s", topology: "t.yaml")
      scenario.steps = [
        ScenarioStep(
          .takes(owner: "a", event: "b", from: .outside), .refused(node: "a", reason: reason))
      ]
      let read = try ScenarioFile.read(text: Array(scenario.yaml.utf8), file: "s.yaml").scenario
      #expect(read.steps[0].outcome == .refused(node: "a", reason: word))
    }
  }

  @Test(
    "An invalid step is refused at its location",
    arguments: [
      ("{ at: door }", "4:5", "has no 'takes'", "missing-key"),
      ("{ at: door, sends: open }", "4:5", "has no 'into'", "missing-key"),
      (
        "{ at: door, sends: open, into: p, refused: guard }", "4:17", "split it into two steps",
        "conflicting-keys"
      ),
      (
        "{ at: door, takes: open, timer: 30 s }", "4:30", "split it into two steps",
        "conflicting-keys"
      ),
      ("{ takes: open }", "4:5", "has no 'at'", "missing-key"),
      ("{ at: door, takes: open, form: outside }", "4:30", Suggestion.hint("from"), "unknown-key"),
      (
        "{ at: door, takes: open, from: outsid }", "4:36",
        "'outside', { pipe: NAME } or { effect: OUTPUT }", "bad-value"
      ),
      (
        "{ at: door, takes: open, from: { pip: x } }", "4:38", Suggestion.hint("pipe"),
        "unknown-key"
      ),
      (
        "{ at: door, takes: open, from: { pipe: x, effect: y } }", "4:36", "must be 'outside'",
        "bad-value"
      ),
      (
        "{ at: door, takes: open, refused: gard }", "4:39", Suggestion.hint("guard"), "bad-value"
      ),
      (
        "{ at: door, takes: open, refused: guard, expect: { door: open } }", "4:30",
        "a refused event changes no state", "conflicting-keys"
      ),
      (
        "{ at: door, takes: open, expect: crahs }", "4:38", "or 'crash', not 'crahs'", "bad-value"
      ),
      ("{ crash: door, takes: open }", "4:7", "split it into two steps", "conflicting-keys"),
      ("{ at: door, takes: 12 }", "4:24", "must be a label", "bad-value"),
      ("door", "4:5", "step 1 must be a mapping, not 'door'", "bad-value"),
    ])
  func refused(step: String, place: String, message: String, code: String) {
    let text = "scenario: s\ntopology: t.yaml\nsteps:\n  - \(step)\n"
    do {
      let read = try ScenarioFile.read(text: Array(text.utf8), file: "s.yaml")
      Issue.record("it was read as \(read.scenario)")
    } catch {
      let found = error.diagnostics.map(\.description)
      #expect(found.count == 1, "\(found)")
      #expect(found[0].hasPrefix("s.yaml:\(place): error: "), "\(found)")
      #expect(found[0].contains(message), "\(found)")
      #expect(found[0].hasSuffix("[\(code)]"), "\(found)")
    }
  }

  @Test("An empty scenario file, and a scenario file without a name, are refused")
  func nothing() {
    for (text, message) in [
      ("", "a scenario starts with 'scenario: NAME'"), ("topology: t\n", "has no 'scenario'"),
    ] {
      #expect {
        _ = try ScenarioFile.read(text: Array(text.utf8), file: "s.yaml")
      } throws: {
        "\($0)".contains(message)
      }
    }
  }
}
