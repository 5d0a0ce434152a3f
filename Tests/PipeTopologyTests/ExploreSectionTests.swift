import PipeMachines
import PipeSupport
import PipeTopology
import Testing

@Suite("The section 'explore'")
struct ExploreSectionTests {
  /// Returns a topology whose section `explore` begins in line 10.
  /// - Parameter key: The key of the node 'passengers'.
  private static func text(_ section: String, key: String = ", key: name") -> String {
    withNodes(
      """
      door: { machine: ElevatorDoor }
      motor: { machine: ElevatorMotor }
      passengers: { machine: Passengers\(key) }
      display: { machine: FloorDisplay }
      fixed: { constant: on }
      """) + "explore:\n" + section.split(separator: "\n").map { "  \($0)\n" }.joined()
  }

  private static let whole = """
    capacity: 3
    keys: { passengers: 4 }
    from_outside: { motor: [start, { call: { floor: 0..4 } }] }
    values: { door.personsHaveEntered: { persons: [0, 1, 10] }, motor.call: { floor: -1..2 } }
    gives: { door: { close: [doorHasLocked, { personsHaveEntered: { persons: 1 } }, ~] } }
    fold: { passengers: { round: 8 } }
    any: [display]
    end: [{ door: closed }, { door: { open: { persons: 0 } }, motor: idle }]
    properties:
      shut: { never: { door: open, motor: moving } }
      rests: { always_possible: { motor: idle, 'passengers[a]': inside } }
    allow:
      - { finding: never-enabled, node: door, event: close, reason: nobody does }
      - { finding: stuck, reason: people go on }
    """

  @Test("Every key of the section 'explore' is read")
  func read() throws {
    let section = try #require(try topology(Self.text(Self.whole)).explore)
    #expect(section.capacity == 3)
    #expect(section.instanceCountsByNode == ["passengers": 4])
    #expect(
      section.fromOutside == [
        "motor": [EventPattern("start"), EventPattern("call", fields: ["floor": .range(0...4)])]
      ])
    #expect(
      section.values == [
        "door": ["personsHaveEntered": ["persons": .values([0, 1, 10])]],
        "motor": ["call": ["floor": .range(-1...2)]],
      ])
    #expect(section.values["motor"]?["call"]?["floor"]?.values == [-1, 0, 1, 2])
    #expect(
      section.effectEvents["door"]?["close"]
        == EffectPattern(
          [
            EventPattern("doorHasLocked"),
            EventPattern("personsHaveEntered", fields: ["persons": .values([1])]),
          ], mayEnd: true))
    #expect(section.foldModuli == ["passengers": ["round": 8]])
    #expect(section.unevaluatedNodes == ["display"])
    #expect(
      section.allowedEndStates == [
        StateCombination(["door": "closed"]),
        StateCombination(["door": StateCondition(["open": ["persons": 0]]), "motor": "idle"]),
      ])
    #expect(
      section.properties == [
        ExploredProperty(
          name: "shut", demand: .never,
          states: StateCombination(["door": "open", "motor": "moving"])),
        ExploredProperty(
          name: "rests", demand: .alwaysPossible,
          states: StateCombination(["motor": "idle", "passengers[a]": "inside"])),
      ])
    #expect(
      section.allow == [
        AllowedFinding(.neverEnabled, node: "door", event: "close", reason: "nobody does"),
        AllowedFinding(.stuck, reason: "people go on"),
      ])
  }

  @Test("A written section 'explore' is read as an equal section and matches the schema")
  func written() throws {
    for section in [Self.whole, "from_outside: {}", "end: { door: closed }", "{}"] {
      let original = try topology(Self.text(section))
      #expect(try topology(original.yaml) == original)
      #expect(try topology(YAMLSafe.text(original.json)) == original)
      #expect(TopologySchemaTests.schema.accepts(original.json))
    }
    #expect(try topology(Self.text("from_outside: {}")).explore?.fromOutside == [:])
    #expect(try topology(Self.text("{}")).explore?.fromOutside == nil)
  }

  @Test("A search uses the file's 'capacity', or 2, but at most the pipe's own capacity")
  func capacity() {
    var pipe = PipeSpecification.ports(from: "a.b", to: "c")
    #expect(ExploreSection.capacity(of: pipe, in: nil) == 2)
    #expect(ExploreSection.capacity(of: pipe, in: ExploreSection(capacity: 5)) == 5)
    pipe.capacity = 1
    #expect(ExploreSection.capacity(of: pipe, in: ExploreSection(capacity: 5)) == 1)
    #expect(ExploreSection.capacity(of: pipe, in: nil) == 1)
  }

  @Test(
    "Errors that can be found without a program are reported at their location",
    arguments: [
      ("capacity: 0", "10:13", "an integer number of events from 1 to 65536, not 0", "bad-value"),
      ("capasity: 2", "10:3", Suggestion.hint("capacity"), "unknown-key"),
      ("keys: { passengers: 9 }", "10:23", "from 1 to 8, not 9", "bad-value"),
      ("keys: { door: 2 }", "10:11", "node 'door' has no 'key'", "bad-value"),
      ("any: [passengers]", "10:9", "node 'passengers' has a 'key'", "bad-value"),
      (
        "end: { passengers: out }", "10:10", "name an instance, such as 'passengers[a]'",
        "bad-value"
      ),
      ("end: { 'door[a]': open }", "10:10", "'door' has no 'key'", "bad-value"),
      (
        "from_outside: [start]", "10:17", "must be a mapping such as { door: [open] }, not a list",
        "bad-value"
      ),
      (
        "from_outside: { door: open }", "10:25",
        "must be a list of events, not "
          + "'open'", "bad-value"
      ),
      ("from_outside: { dor: [x] }", "10:19", Suggestion.hint("door"), "unknown-node"),
      ("from_outside: { fixed: [x] }", "10:19", "is constant and accepts no events", "bad-value"),
      ("from_outside: { door: [1x] }", "10:26", "'1x' is not a valid Swift case name", "bad-value"),
      (
        "from_outside: { motor: [{ call: { floor: 4..0 } }] }", "10:44",
        "cannot be 4..0: a range goes from a lower to a higher integer", "bad-value"
      ),
      ("values: { door: { persons: [1] } }", "10:13", "write 'NODE.EVENT'", "bad-name"),
      (
        "values: { door.x: { persons: 1 } }", "10:32",
        "must be a list of values, or a range of integers such as 0..4, not 1", "bad-value"
      ),
      ("values: { door.x: { persons: [] } }", "10:32", "must be a list of values", "bad-value"),
      (
        "values: { door.x: { persons: 0..10000 } }", "10:32", "has at most 10000 values",
        "bad-value"
      ),
      ("values: { dor.x: { persons: [1] } }", "10:13", Suggestion.hint("door"), "unknown-node"),
      ("gives: { dor: { close: [x] } }", "10:12", Suggestion.hint("door"), "unknown-node"),
      ("gives: { door: [x] }", "10:18", "such as { close: [doorHasLocked] }", "bad-value"),
      (
        "gives: { door: { close: [~, x] } }", "10:28", "has '~' before the end of the list",
        "bad-value"
      ),
      ("fold: { passengers: { round: 0 } }", "10:32", "from 1 to 65536, not 0", "bad-value"),
      ("fold: { passenger: { round: 8 } }", "10:11", Suggestion.hint("passengers"), "unknown-node"),
      ("any: [displai]", "10:9", Suggestion.hint("display"), "unknown-node"),
      ("end: { dor: closed }", "10:10", Suggestion.hint("door"), "unknown-node"),
      ("end: [{ door: closed }, { dor: open }]", "10:29", Suggestion.hint("door"), "unknown-node"),
      ("end: {}", "10:8", "is empty; name a node and its state", "bad-value"),
      (
        "properties: { shut: { never: { dor: open } } }", "10:34", Suggestion.hint("door"),
        "unknown-node"
      ),
      (
        "properties: { shut: { nevr: { door: open } } }", "10:25", Suggestion.hint("never"),
        "unknown-key"
      ),
      ("properties: { shut: {} }", "10:23", "is empty; add 'never'", "missing-key"),
      (
        "properties: { a: { never: { door: open }, always_possible: { door: open } } }", "10:45",
        "split it into two properties", "conflicting-keys"
      ),
      ("allow: [{ finding: stuk, reason: r }]", "10:22", Suggestion.hint("stuck"), "bad-value"),
      ("allow: [{ finding: stuck }]", "10:11", "reason", "missing-key"),
      (
        "allow: [{ finding: stuck, pipe: p, reason: r }]", "10:35", "no such pipe 'p'",
        "bad-name"
      ),
      (
        "allow: [{ finding: never-enabled, node: dor, reason: r }]", "10:43",
        Suggestion.hint("door"),
        "unknown-node"
      ),
      (
        "properties: { a b: { never: { door: open } } }", "10:17", "'a b' is not a valid name",
        "bad-name"
      ),
    ])
  func refused(section: String, place: String, message: String, code: String) {
    let found = errors(Self.text(section))
    #expect(found.count == 1, "\(found)")
    #expect(found.first?.hasPrefix("test.yaml:\(place): error: ") == true, "\(found)")
    #expect(found.first?.contains(message) == true, "\(found)")
    #expect(found.first?.hasSuffix("[\(code)]") == true, "\(found)")
  }

  @Test(
    "Names that the programs do not have are reported at their location",
    arguments: [
      ("from_outside: { motor: [strat] }", "10:27", Suggestion.hint("start"), "unknown-event"),
      (
        "from_outside: { motor: [{ call: { flor: 1 } }] }", "10:37", Suggestion.hint("floor"),
        "unknown-field"
      ),
      (
        "from_outside: { motor: [{ call: { floor: high } }] }", "10:44",
        "write a value of type "
          + "Int",
        "type-mismatch"
      ),
      (
        "values: { door.personHasEntered: { persons: [1] } }", "10:13",
        Suggestion.hint("personsHaveEntered"), "unknown-event"
      ),
      (
        "values: { door.personsHaveEntered: { person: [1] } }", "10:40", Suggestion.hint("persons"),
        "unknown-field"
      ),
      (
        "values: { door.personsHaveEntered: { persons: [1, many] } }", "10:53",
        "cannot be \"many\"; write a value of type Int", "type-mismatch"
      ),
      (
        "gives: { door: { feedback1: [doorHasLockd] } }", "10:32", Suggestion.hint("doorHasLocked"),
        "unknown-event"
      ),
      ("fold: { passengers: { rond: 8 } }", "10:25", Suggestion.hint("round"), "unknown-field"),
      ("end: { door: clsed }", "10:16", Suggestion.hint("closed"), "unknown-state"),
      (
        "end: { door: { open: { person: 1 } } }", "10:26", "has no field 'person'", "unknown-field"
      ),
      (
        "end: { door: { open: { persons: many } } }", "10:35", "write a value of type Int",
        "type-mismatch"
      ),
      (
        "properties: { shut: { never: { motor: moveing } } }", "10:41", Suggestion.hint("moving"),
        "unknown-state"
      ),
    ])
  func unlikePrograms(section: String, place: String, message: String, code: String) throws {
    let found = try Described.check(Self.withEffects(section))
    #expect(found.count == 1, "\(found)")
    #expect(found.first?.hasPrefix("test.yaml:\(place): error: ") == true, "\(found)")
    #expect(found.first?.contains(message) == true, "\(found)")
    #expect(found.first?.hasSuffix("[\(code)]") == true, "\(found)")
  }

  /// Returns the same nodes with all out-ports connected.
  private static func withEffects(_ section: String) -> String {
    let pipe = "pipes: [{ from: door.arrivals, to: display }]\n"
    return text(section, key: "").replacing("explore:\n", with: "").replacing(
      "  fixed: { constant: on }\n", with: pipe + "explore:\n")
  }
}
