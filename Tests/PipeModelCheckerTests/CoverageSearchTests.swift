import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestTraits
import Testing

@Suite("Searches for reachable transitions", .stallLimit(.seconds(120)))
struct CoverageSearchTests {
  /// Returns the changes of state in all steps of a topology, by walking through its states.
  private static func changes(
    of loaded: LoadedTopology
  ) async throws -> (transitions: Set<CoverageItem>, synchronized: Set<CoverageItem>) {
    let explored = try await TopologyExplorer(
      loaded, loaded.topology.explore, ExplorationSettings()
    ).explored()
    var transitions: Set<CoverageItem> = []
    var synchronized: Set<CoverageItem> = []
    var states = [explored.initialState]
    var known = Set(states)
    var next = 0
    while next < states.count {
      let state = states[next]
      next += 1
      for step in explored.steps(from: state) {
        if known.insert(step.target).inserted { states.append(step.target) }
        guard !step.isRefused, let event = step.event.caseName else { continue }
        if loaded.topology.composite(step.owner) != nil {
          synchronized.insert(.synchronized(composite: step.owner, event: event))
        }
        for node in loaded.topology.nodes {
          guard let before = explored.state(of: node.name, in: state)?.caseName,
            let after = explored.state(of: node.name, in: step.target)?.caseName, before != after
          else { continue }
          transitions.insert(
            .transition(node: node.name, from: before, event: event, to: after))
        }
      }
    }
    return (transitions, synchronized)
  }

  @Test(
    "The items of a cover are the changes of state in all steps",
    arguments: ["lift", "payment", "philosophers", "vending-machine"])
  func items(name: String) async throws {
    let loaded = try LoadedTopology.load(.file("topologies/\(name).yaml"))
    var settings = ExplorationSettings()
    settings.includesCover = true
    let report = try await TopologyExplorer(loaded, loaded.topology.explore, settings).explore()
    let cover = try #require(report.cover)
    let (transitions, synchronized) = try await Self.changes(of: loaded)
    let changes = cover.items.filter {
      if case .transition(_, let from, _, let to) = $0 { from != to } else { false }
    }
    #expect(changes == transitions)
    #expect(!transitions.isEmpty)
    #expect(cover.items.filter { !$0.isTransition } == synchronized)
    #expect(!report.isReduced)
  }

  @Test("Each scenario of a cover has the expected states and pipes, and passes a replay")
  func scenarios() async throws {
    let loaded = try LoadedTopology.load(.file("topologies/payment.yaml"))
    var settings = ExplorationSettings()
    settings.includesCover = true
    let report = try await TopologyExplorer(loaded, loaded.topology.explore, settings).explore()
    let cover = try #require(report.cover)
    var covered: Set<CoverageItem> = []
    for scenario in cover.scenarios {
      #expect(!scenario.expectedStates.isEmpty && !scenario.expectedPipeContents.isEmpty)
      var replay = try ScenarioReplay(loaded)
      try replay.run(scenario)
      #expect(!replay.coveredItems.subtracting(covered).isEmpty, "the scenario covers nothing new")
      covered.formUnion(replay.coveredItems)
    }
    #expect(covered == cover.items)
  }
}
