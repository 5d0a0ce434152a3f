import PipeMachines
import PipeTopology
import Testing

@Suite("The section 'explore'")
struct ExploreSectionTests {
  /// Returns a topology whose section `explore` begins in line 10.
  private static func text(_ section: String) -> String {
    withNodes(
      """
      door: { machine: ElevatorDoor }
      motor: { machine: ElevatorMotor }
      passengers: { machine: Passengers }
      display: { machine: FloorDisplay }
      fixed: { constant: on }
      """) + "explore:\n" + section.split(separator: "\n").map { "  \($0)\n" }.joined()
  }

  private static let whole = """
    capacity: 3
    from_outside: { motor: [start, { call: { floor: 0..4 } }] }
    values: { door.personsHaveEntered: { persons: [0, 1, 10] }, motor.call: { floor: -1..2 } }
    gives: { door: { close: [doorHasLocked, { personsHaveEntered: { persons: 1 } }, ~] } }
    fold: { passengers: { round: 8 } }
    any: [display]
    end: [{ door: closed }, { door: { open: { persons: 0 } }, motor: idle }]
    properties:
      shut: { never: { door: open, motor: moving } }
      rests: { always_possible: { motor: idle } }
    allow:
      - { finding: never-enabled, node: door, event: close, reason: nobody does }
      - { finding: stuck, reason: people go on }
    """

  @Test("Every key of the section is read")
  func read() throws {
    let section = try #require(try topology(Self.text(Self.whole)).explore)
    #expect(section.capacity == 3)
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
      section.gives["door"]?["close"]
        == EffectPattern(
          [
            EventPattern("doorHasLocked"),
            EventPattern("personsHaveEntered", fields: ["persons": .values([1])]),
          ], mayEnd: true))
    #expect(section.fold == ["passengers": ["round": 8]])
    #expect(section.any == ["display"])
    #expect(
      section.end == [
        StateCombination(["door": "closed"]),
        StateCombination(["door": StateCondition(["open": ["persons": 0]]), "motor": "idle"]),
      ])
    #expect(
      section.properties == [
        ExploredProperty(
          name: "shut", demand: .never,
          states: StateCombination(["door": "open", "motor": "moving"])),
        ExploredProperty(
          name: "rests", demand: .alwaysPossible, states: StateCombination(["motor": "idle"])),
      ])
    #expect(
      section.allow == [
        AllowedFinding(.neverEnabled, node: "door", event: "close", reason: "nobody does"),
        AllowedFinding(.stuck, reason: "people go on"),
      ])
  }

  @Test("A written section reads back to an equal one and matches the schema")
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

  @Test("The search uses the smaller of the file's capacity and two")
  func capacity() {
    var pipe = PipeSpecification.ports(from: "a.b", to: "c")
    #expect(ExploreSection.capacity(of: pipe, in: nil) == 2)
    #expect(ExploreSection.capacity(of: pipe, in: ExploreSection(capacity: 5)) == 5)
    pipe.capacity = 1
    #expect(ExploreSection.capacity(of: pipe, in: ExploreSection(capacity: 5)) == 1)
    #expect(ExploreSection.capacity(of: pipe, in: nil) == 1)
  }

  @Test(
    "Errors that the file alone shows are refused at their location",
    arguments: [
      ("capacity: 0", "10:13", "an integer number of events from 1 to 65536, not 0", "bad-value"),
      ("capasity: 2", "10:3", "Did you mean 'capacity'?", "unknown-key"),
      (
        "from_outside: [start]", "10:17", "must be a mapping such as { door: [open] }, not a list",
        "bad-value"
      ),
      (
        "from_outside: { door: open }", "10:25",
        "must be a list of events, not "
          + "'open'", "bad-value"
      ),
      ("from_outside: { dor: [x] }", "10:19", "Did you mean 'door'?", "unknown-node"),
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
      ("values: { dor.x: { persons: [1] } }", "10:13", "Did you mean 'door'?", "unknown-node"),
      ("gives: { dor: { close: [x] } }", "10:12", "Did you mean 'door'?", "unknown-node"),
      ("gives: { door: [x] }", "10:18", "such as { close: [doorHasLocked] }", "bad-value"),
      (
        "gives: { door: { close: [~, x] } }", "10:28", "has '~' before the end of the list",
        "bad-value"
      ),
      ("fold: { passengers: { round: 0 } }", "10:32", "from 1 to 65536, not 0", "bad-value"),
      ("fold: { passenger: { round: 8 } }", "10:11", "Did you mean 'passengers'?", "unknown-node"),
      ("any: [displai]", "10:9", "Did you mean 'display'?", "unknown-node"),
      ("end: { dor: closed }", "10:10", "Did you mean 'door'?", "unknown-node"),
      ("end: [{ door: closed }, { dor: open }]", "10:29", "Did you mean 'door'?", "unknown-node"),
      ("end: {}", "10:8", "is empty; name a node and its state", "bad-value"),
      (
        "properties: { shut: { never: { dor: open } } }", "10:34", "Did you mean 'door'?",
        "unknown-node"
      ),
      (
        "properties: { shut: { nevr: { door: open } } }", "10:25", "Did you mean 'never'?",
        "unknown-key"
      ),
      ("properties: { shut: {} }", "10:23", "is empty; add 'never'", "missing-key"),
      (
        "properties: { a: { never: { door: open }, always_possible: { door: open } } }", "10:45",
        "split it into two properties", "conflicting-keys"
      ),
      ("allow: [{ finding: stuk, reason: r }]", "10:22", "Did you mean 'stuck'?", "bad-value"),
      ("allow: [{ finding: stuck }]", "10:11", "reason", "missing-key"),
      (
        "allow: [{ finding: stuck, pipe: p, reason: r }]", "10:35", "no such pipe 'p'",
        "bad-name"
      ),
      (
        "allow: [{ finding: never-enabled, node: dor, reason: r }]", "10:43",
        "Did you mean 'door'?",
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
    "Names that the programs do not have are refused at their location",
    arguments: [
      ("from_outside: { motor: [strat] }", "10:27", "Did you mean 'start'?", "unknown-event"),
      (
        "from_outside: { motor: [{ call: { flor: 1 } }] }", "10:37", "Did you mean 'floor'?",
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
        "Did you mean 'personsHaveEntered'?", "unknown-event"
      ),
      (
        "values: { door.personsHaveEntered: { person: [1] } }", "10:40", "Did you mean 'persons'?",
        "unknown-field"
      ),
      (
        "values: { door.personsHaveEntered: { persons: [1, many] } }", "10:53",
        "cannot be \"many\"; write a value of type Int", "type-mismatch"
      ),
      (
        "gives: { door: { feedback1: [doorHasLockd] } }", "10:32", "Did you mean 'doorHasLocked'?",
        "unknown-event"
      ),
      ("fold: { passengers: { rond: 8 } }", "10:25", "Did you mean 'round'?", "unknown-field"),
      ("end: { door: clsed }", "10:16", "Did you mean 'closed'?", "unknown-state"),
      (
        "end: { door: { open: { person: 1 } } }", "10:26", "has no field 'person'", "unknown-field"
      ),
      (
        "end: { door: { open: { persons: many } } }", "10:35", "write a value of type Int",
        "type-mismatch"
      ),
      (
        "properties: { shut: { never: { motor: moveing } } }", "10:41", "Did you mean 'moving'?",
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
    return text(section).replacing("explore:\n", with: "").replacing(
      "  fixed: { constant: on }\n", with: pipe + "explore:\n")
  }
}
