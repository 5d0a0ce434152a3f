import Compositions
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// Compares the states that running composites report with the product of their machines.
///
/// Each recorded state must be a state of the product, and each pair of consecutive states a step
/// of it. A composite may leave out steps that a participant took alone just before a commit
/// (decision 0017). In these two examples such a step ends in the state where it starts, so no pair
/// has to be excluded for that reason.
@Suite("The states of composites and the product of their machines", .timed)
struct ProductStateTests {
  /// Records the states that a topology's composites report until the condition holds.
  private static func record(
    _ composites: [String], of topology: TopologyHarness,
    until isEnough: @escaping @Sendable ([String: RecordedStates]) -> Bool
  ) async throws -> [String: RecordedStates] {
    let stream = try await topology.states(of: composites)
    let recorded = try await unlessStalled(for: .seconds(20)) {
      var recorded: [String: RecordedStates] = [:]
      for await change in stream {
        recorded[change.node, default: RecordedStates()].append(change)
        if isEnough(recorded) { break }
      }
      return recorded
    }
    guard let recorded else { throw UnexpectedResult("not all states were seen in time") }
    return recorded
  }

  /// Compares the recorded states of one composite with the product.
  private static func expect(
    _ recorded: RecordedStates, in product: RecordedProduct, of nodes: [String],
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let unreachable = Set(recorded.states).subtracting(product.states(of: nodes))
    #expect(unreachable == [], sourceLocation: sourceLocation)
    let others = Set(recorded.steps).subtracting(product.steps(of: nodes))
    #expect(others == [], sourceLocation: sourceLocation)
    #expect(recorded.changes.allSatisfy { $0.missedCount == 0 }, sourceLocation: sourceLocation)
  }

  @Test("The vending machine's composite shows exactly the states and steps of the product")
  func vendingMachine() async throws {
    let topology = try ExampleTopology.read(
      "vending-machine.yaml",
      parameters: ["VendingUser": ["pace": 5], "VendingMachine": ["price": 2, "pace": 5]])
    let product = try RecordedProduct(
      of: topology,
      payloads: [
        "user": [
          VendingUser.Event.showPurchasable(more: true),
          VendingUser.Event.showPurchasable(more: false),
        ]
      ])
    #expect(product.exploration.states.count == 6)
    #expect(product.exploration.transitions.count == 8)
    let nodes = ["user", "machine"]
    let all = product.steps(of: nodes)
    #expect(all.count == 8)
    try await withTopology(topology) { topology in
      // Inserts thoughts between the steps. Most of them come in a state that refuses them.
      let thinking = Task {
        while !Task.isCancelled { _ = try? await topology.send("user", VendingUser.Event.tau) }
      }
      defer { thinking.cancel() }
      let recorded = try await Self.record(["sale"], of: topology) { recorded in
        guard let sale = recorded["sale"] else { return false }
        return sale.changes.count >= 200 && Set(sale.steps).isSuperset(of: all)
      }
      let sale = try #require(recorded["sale"])
      Self.expect(sale, in: product, of: nodes)
      #expect(Set(sale.states) == product.states(of: nodes))
    }
  }

  @Test("The philosophers' composites show only states of the product")
  func philosophers() async throws {
    var topology = try ExampleTopology.read(
      "philosophers.yaml", parameters: ["Philosopher": ["thought": 15, "meal": 15]])
    let seats = topology.composites
    let product = try RecordedProduct(of: topology)
    #expect(product.exploration.states.count == 11)
    #expect(product.exploration.transitions.count == 30)
    // Adds a composite that synchronizes nothing and shows all nodes in one state.
    let everybody = topology.nodes.map(\.name)
    topology.composites.append(CompositeSpecification(name: "table", components: everybody))
    try await withTopology(topology) { topology in
      let names = seats.map(\.name) + ["table"]
      let recorded = try await Self.record(names, of: topology) { recorded in
        let table = Set(recorded["table"]?.states ?? [])
        return table.count >= 8 && (recorded["table"]?.changes.count ?? 0) >= 100
          && recorded.count == names.count
      }
      let table = try #require(recorded["table"])
      Self.expect(table, in: product, of: everybody)
      #expect(Set(table.states).count >= 8)
      for seat in seats {
        let shown = try #require(recorded[seat.name])
        Self.expect(shown, in: product, of: seat.components)
        // A philosopher thinks with two, one or no forks on the table, or eats.
        #expect(Set(shown.states).count >= 3, "\(seat.name)")
        #expect(Set(shown.states).isSubset(of: product.states(of: seat.components)))
      }
    }
  }
}
