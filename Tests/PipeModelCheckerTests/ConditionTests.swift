import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite("States named in properties", .stallLimit(.seconds(60)))
struct ConditionTests {
  private static let nodes = """
    topology: conditions
    program: TestNodes
    nodes:
      wheel: { machine: Wheel }
      fickle: { machine: Fickle }
      lamp: { machine: Lamp }
      door: { machine: LiftDoor, program: nodes }
      motor: { machine: LiftMotor, program: nodes }
    composites:
      lift:
        components: [door, motor]
        synchronize: { open: [door, motor], go: [door, motor] }
        program: nodes
        projection: LiftState

    """

  /// Returns the errors of a property of these states, wherever they are found.
  private static func errors(
    _ states: String, _ rest: String = ""
  ) async throws -> [Diagnostic] {
    let path = "/tmp/conditions-\(UInt64.random(in: 0...UInt64.max)).yaml"
    try FileSystem.replace(
      path,
      with: (nodes + "explore:\n  properties: { p: { never: \(states) } }\n  from_outside: {}\n"
        + rest).utf8)
    defer { FileSystem.removeTree(path) }
    do {
      let loaded = try LoadedTopology.load(.file(path))
      _ = try await TopologyExplorer(
        loaded, loaded.topology.explore, ExplorationSettings()
      ).explore()
      return []
    } catch let errors as TopologyErrors {
      return errors.diagnostics.filter { $0.severity == .error }
    }
  }

  @Test(
    "A property with an impossible state causes an error at the property's line",
    arguments: [
      ("{ fickle: { not: odd } }", "type-mismatch"), ("{ fickle: ood }", "unknown-state"),
      ("{ wheel: { at: { m: 1 } } }", "unknown-field"), ("{ wheel: { at: {} } }", "missing-field"),
      ("{ wheel: { at: { n: x } } }", "type-mismatch"), ("{ wheel: 3 }", "bad-value"),
      ("{ lamp: { lit: { colour: blue, since: 1 } } }", "type-mismatch"),
      ("{ lamp: { lit: { colour: 7 } } }", "type-mismatch"),
      ("{ lift: wating }", "unknown-state"),
    ])
  func impossible(states: String, code: String) async throws {
    let errors = try await Self.errors(states)
    let error = try #require(errors.first, "\(states)")
    #expect(Set(errors.map(\.code.rawValue)).contains(code), "\(errors)")
    #expect(error.line == Self.nodes.split(separator: "\n").count + 2, "\(errors)")
  }

  @Test(
    "A property can name every state that the machine's state type can represent",
    arguments: [
      "{ fickle: odd }", "{ wheel: { at: { n: 99 } } }", "{ wheel: at }",
      "{ lamp: { lit: { colour: red, since: ~ } } }", "{ lamp: { lit: { colour: red } } }",
      "{ lift: waiting }",
    ])
  func possible(states: String) async throws {
    #expect(try await Self.errors(states).isEmpty)
  }

  @Test("A property that names a node listed under 'any' causes an error at the property's line")
  func any() async throws {
    let errors = try await Self.errors("{ motor: moving }", "  any: [motor]\n")
    #expect(errors.map(\.code) == [.badValue], "\(errors)")
    #expect(errors.first?.message.contains("'any'") == true, "\(errors)")
    #expect(try await Self.errors("{ door: closed }", "  any: [motor]\n").isEmpty)
  }

  @Test("A property of a composite is undecided if a node of the composite is listed under 'any'")
  func projection() async throws {
    var section = ExploreSection(
      fromOutside: ["lift": [EventPattern("open")]], unevaluatedNodes: ["motor"])
    for demand in ExploredProperty.Demand.allCases {
      section.properties = [
        ExploredProperty(name: "p", demand: demand, states: StateCombination(["lift": "waiting"]))
      ]
      let report = try await ExplorationFixture.file("topologies/lift.yaml", section)
      #expect(report.verdict.remarks.contains(.undecided(property: "p", because: .anyBehaviour)))
      #expect(report.verdict.degree == .incomplete)
      #expect(report.findings(.violatedProperty).isEmpty)
    }
  }

  @Test("A property that uses a folded field causes an error at the property's line")
  func folded() async throws {
    let errors = try await Self.errors(
      "{ wheel: { at: { n: 7 } } }", "  fold: { wheel: { n: 5 } }\n")
    #expect(errors.map(\.code) == [.badValue], "\(errors)")
    #expect(errors.first?.message.contains("'fold'") == true, "\(errors)")
    #expect(try await Self.errors("{ wheel: at }", "  fold: { wheel: { n: 5 } }\n").isEmpty)
  }

  @Test("In a property, an omitted optional field means the same as a null field")
  func written() async throws {
    for states in [
      "{ lamp: { lit: { colour: red } } }", "{ lamp: { lit: { colour: red, since: ~ } } }",
    ] {
      var section = ExplorationFixture.outside(["lamp": []])
      section.fromOutside = ["lamp": [EventPattern("light", fields: ["colour": .values(["red"])])]]
      let text =
        "topology: t\nnodes:\n  lamp: { machine: Lamp, program: TestNodes }\nexplore:\n"
        + "  properties: { dark: { never: \(states) } }\n"
      let read = try TopologyReader.read(text: Array(text.utf8), file: "t.yaml")
      section.properties = read.topology.explore?.properties ?? []
      let report = try await ExplorationFixture.topology(
        "nodes:\n  lamp: { machine: Lamp }\n", section)
      #expect(report.codes.contains(.violatedProperty), "\(states)")
    }
  }

  @Test("A property that depends on steps of a node listed under 'any' is undecided")
  func undecided() async throws {
    var section = ExploreSection(fromOutside: ["wheel": [EventPattern("tick")]])
    section.unevaluatedNodes = ["fickle"]
    section.properties = [
      ExploredProperty(
        name: "on", demand: .alwaysPossible, states: StateCombination(["wheel": "at"]))
    ]
    let report = try await ExplorationFixture.topology(
      "nodes:\n  wheel: { machine: Wheel }\n  fickle: { machine: Fickle }\n", section)
    #expect(report.verdict.remarks.contains(.undecided(property: "on", because: .anyBehaviour)))
    #expect(report.verdict.degree == .incomplete)
  }

  @Test("A verdict is not exact if a composite's rule depends on a node listed under 'any'")
  func silentComposite() async throws {
    var section = ExploreSection(fromOutside: ["both": [EventPattern("sync")]])
    section.unevaluatedNodes = ["r"]
    let report = try await ExplorationFixture.topology(
      "nodes:\n" + ExplorationFixture.automaton("l", "0", ["0 sync 1", "1 sync 0"])
        + ExplorationFixture.automaton("r", "0", ["0 sync 1"])
        + ExplorationFixture.automaton("sink", "0", ["0 z 1"])
          + """
          composites:
            both: { components: [l, r], synchronize: { sync: [l, r] } }
          pipes:
            - { from: both, when: { l: at, r: sending }, to: sink, send: z }

          """, section)
    #expect(report.verdict.remarks.contains(.silentComposite(composite: "both", node: "r")))
    #expect(report.verdict.degree == .sampled)
  }
}
