import PipeModelChecker
import PipeDiagrams
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite("The state charts of machines", .stallLimit(.seconds(60)))
struct StateChartTests {
  /// Returns each transition as a line: `closed open open`, with `?` for an unknown target, and the
  /// uncertainty at the end.
  private static func lines(_ chart: StateChart) -> [String] {
    chart.transitions.map { transition in
      "\(transition.source) \(transition.event) \(transition.target ?? "?")"
        + (transition.uncertaintyReason.map { " \($0.rawValue)" } ?? "")
    }.sorted()
  }

  private static func chart(of node: String, in file: String) throws -> StateChart {
    try StateChartSearch(
      .load(.file("topologies/\(file).yaml")), limits: patient
    ).chart(of: node)
  }

  /// The limits of a search that ends by itself, however slow the machine is.
  fileprivate static let patient: StateChartSearch.Limits = {
    var limits = StateChartSearch.Limits()
    limits.answerTimeout = .seconds(600)
    limits.searchTimeLimit = .seconds(600)
    return limits
  }()

  @Test("The chart of a lift's door shows a guard, and a way back from every state")
  func liftDoor() throws {
    let chart = try Self.chart(of: "door", in: "lift")
    #expect(chart.initialState == "closed")
    #expect(chart.states.map(\.name) == ["open", "closed", "stopped"])
    #expect(chart.states[0].fields == ["persons: Int"])
    #expect(
      Self.lines(chart) == [
        "closed emergencyStop stopped", "closed go closed", "closed open open",
        "open close closed", "open emergencyStop stopped", "open enter open dependsOnValues",
        "stopped reset closed",
      ])
    #expect(chart.finalStates.isEmpty)
  }

  @Test("The chart of an elevator's door is complete although its state counts endlessly")
  func elevatorDoor() throws {
    let chart = try Self.chart(of: "door", in: "elevator")
    #expect(chart.initialState == "open")
    #expect(
      Self.lines(chart) == [
        "closed openButtonWasPressed open", "closing doorHasLocked closed",
        "closing openButtonWasPressed open", "open closeButtonWasPressed closing dependsOnValues",
        "open personsHaveEntered open",
      ])
  }

  @Test("The chart of a washing machine is a cycle without uncertain transitions")
  func washer() throws {
    let chart = try Self.chart(of: "washer", in: "washing-machine")
    #expect(
      Self.lines(chart) == [
        "coldAndEmpty start fullWithHotWater", "drumAgitating timeIsUp pumping",
        "fullWithColdWater timeIsUp spinning", "fullWithHotWater timeIsUp waterHeated",
        "pumping timeIsUp fullWithColdWater", "spinning timeIsUp coldAndEmpty",
        "waterHeated timeIsUp drumAgitating",
      ])
    #expect(chart.notes.isEmpty)
  }

  @Test(
    "Every machine of the shipped topologies has a state chart",
    arguments: [
      "address", "composite", "counter", "elevator", "example", "kettles", "lift", "movies",
      "movies-pages", "navigation", "philosophers", "quiz", "relay", "vending-machine",
      "washing-machine", "washing-machine-reduced",
    ])
  func shipped(file: String) throws {
    let loaded = try LoadedTopology.load(.file("topologies/\(file).yaml"))
    for node in loaded.topology.nodes where node.constant == nil {
      let chart = try StateChartSearch(loaded, limits: Self.patient).chart(of: node.name)
      let names = Set(chart.states.map(\.name))
      #expect(names.count == chart.states.count)
      #expect(names.contains(chart.initialState ?? ""), "\(node.name)")
      #expect(!chart.transitions.contains { $0.uncertaintyReason == .noAnswer }, "\(node.name)")
      #expect(chart.transitions.allSatisfy { names.contains($0.source) })
      #expect(chart.transitions.allSatisfy { names.contains($0.target ?? $0.source) })
      #expect(Set(chart.transitions).count == chart.transitions.count)
    }
  }

  @Test("The search for a state chart ends at its limits, and marks the chart as incomplete")
  func limits() throws {
    let loaded = try LoadedTopology.load(.file("topologies/elevator.yaml"))
    var limits = Self.patient
    limits.maximumStateCount = 3
    let chart = try StateChartSearch(loaded, limits: limits).chart(of: "door")
    #expect(chart.notes == ["the search reached a limit and is incomplete"])
    limits.searchTimeLimit = .zero
    let none = try StateChartSearch(loaded, limits: limits).chart(of: "door")
    #expect(none.transitions.isEmpty)
    #expect(none.initialState == "open")
    #expect(none.notes.count == 2)
  }

  @Test("A node that does not exist or has no machine has no state chart")
  func none() throws {
    let loaded = try LoadedTopology.load(.file("topologies/lift.yaml"))
    #expect(throws: StateChartSearch.Failure.unknownNode(known: ["door", "motor"])) {
      _ = try StateChartSearch(loaded).chart(of: "lift")
    }
  }
}

@Suite("State charts of unusual machines", .stallLimit(.seconds(60)))
struct OddStateChartTests {
  /// Returns the state chart of a node of the test program.
  private static func chart(
    _ node: String, _ section: String = "",
    _ change: (inout StateChartSearch.Limits) -> Void = { _ in }
  ) throws -> StateChart {
    let path = "/tmp/chart-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { FileSystem.removeTree(path) }
    let text = "topology: odd\nprogram: TestNodes\nnodes: { node: \(node) }\n\(section)\n"
    try FileSystem.replace(path, with: Array(text.utf8))
    var limits = StateChartTests.patient
    change(&limits)
    return try StateChartSearch(.load(.file(path)), limits: limits).chart(of: "node")
  }

  private static func automaton(_ steps: String...) -> String {
    "{ machine: Automaton, parameters: { steps: [\(steps.map { "\"\($0)\"" }.joined(separator: ", "))] } }"
  }

  @Test(
    "A chart merges states that differ in values, and marks transitions that depend on values")
  func values() throws {
    let chart = try Self.chart(Self.automaton("0 x 1", "0 y sending", "1 y 0", "sending z sending"))
    #expect(chart.states.map(\.name) == ["at", "sending"])
    #expect(
      Set(chart.transitions) == [
        .init("at", "x", "at", uncertaintyReason: .dependsOnValues),
        .init("at", "y", "sending", uncertaintyReason: .dependsOnValues),
        .init("at", "y", "at", uncertaintyReason: .dependsOnValues),
        .init("sending", "z", "sending"),
      ])
  }

  @Test("A chart lists internal transitions and ignored events inside the box of their state")
  func kinds() throws {
    let chart = try Self.chart(
      Self.automaton("0 x stay.1", "0 y ignore", "0 z sending", "1 x stay.0", "1 y ignore"))
    #expect(chart.transitions.contains(.init("at", "x", "at", .internal)))
    #expect(chart.transitions.contains(.init("at", "y", "at", .ignored)))
    #expect(chart.lines.contains("at --x--> stay") && chart.lines.contains("at --y--> ignore"))
    #expect(chart.finalStates == ["sending"])
    let graph = chart.graph()
    let box = try #require(graph.nodes.first { $0.id == "at" })
    #expect(box.lines.suffix(2) == ["x / stay", "ignore: y"], "\(box.lines)")
    #expect(!graph.edges.contains { $0.source == "at" && $0.target == "at" })
    #expect(chart.json.text.contains(#""kind":"ignored""#))
  }

  @Test("An unreached state's transitions are tried with a sample value and marked as uncertain")
  func unmet() throws {
    let chart = try Self.chart(Self.automaton("0 x 0", "sending z 0"))
    #expect(chart.states.map(\.isReached) == [true, false])
    #expect(chart.transitions.contains(.init("sending", "z", "at", uncertaintyReason: .seenOnce)))
    #expect(chart.notes == ["'not met': no tried event leads to this state"])
    #expect(!chart.finalStates.contains("sending"))
  }

  @Test("The search for a state chart tries the values that the file declares")
  func declared() throws {
    let node = Self.automaton("0 word.abc sending")
    #expect(try !Self.chart(node).transitions.contains { $0.target == "sending" })
    let chart = try Self.chart(node, "explore: { values: { node.word: { text: [abc] } } }")
    #expect(
      chart.transitions.contains(.init("at", "word", "sending", uncertaintyReason: .seenOnce)))
  }

  @Test("An asynchronous transition has an unknown target")
  func asynchronous() throws {
    let chart = try Self.chart("{ machine: Chaperone }")
    #expect(
      chart.transitions == [.init("watching", "dance", nil, uncertaintyReason: .asynchronous)])
  }

  @Test("An event that crashes or hangs the program is tried once, and the search continues")
  func fragile() throws {
    let chart = try Self.chart("{ machine: Fragile }") {
      $0.answerTimeout = .milliseconds(500)
      $0.maximumStateCount = 5
    }
    let unanswered = chart.transitions.filter { $0.uncertaintyReason == .noAnswer }
    #expect(Set(unanswered.map(\.event)) == ["exit", "hang", "trap"])
    #expect(chart.transitions.contains { $0.event == "touch" && $0.target == "well" })
  }
}
