import Compositions
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

/// What composites of processes show, held against the product of the machines.
///
/// Each recorded state must be one that the product reaches, and each pair of consecutive ones a step
/// of it. A composite may leave out steps that a participant took by itself just before a commit
/// (decision 0017); in these two examples such a step leads to the state that it starts from, so that
/// no pair needs to be left out for that.
@Suite("The states of composites and the product of their machines", .timed)
struct ProductStateTests {
  /// Records what a topology's composites show, until it is enough.
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
    guard let recorded else { throw Unexpected("not all states were seen in time") }
    return recorded
  }

  /// Holds what was recorded of one composite against the product.
  private static func expect(
    _ recorded: RecordedStates, in product: RecordedProduct, of nodes: [String],
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    let unreachable = Set(recorded.states).subtracting(product.states(of: nodes))
    #expect(unreachable == [], sourceLocation: sourceLocation)
    let others = Set(recorded.steps).subtracting(product.steps(of: nodes))
    #expect(others == [], sourceLocation: sourceLocation)
    #expect(recorded.changes.allSatisfy { $0.missed == 0 }, sourceLocation: sourceLocation)
  }

  @Test("the vending machine shows each state and takes each step of the product, and no other")
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
      // Thoughts come in between; most come at the wrong time.
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

  @Test("five philosophers show only states of the product, at each seat and at the whole table")
  func philosophers() async throws {
    var topology = try ExampleTopology.read(
      "philosophers.yaml", parameters: ["Philosopher": ["thought": 15, "meal": 15]])
    let seats = topology.composites
    let product = try RecordedProduct(of: topology)
    #expect(product.exploration.states.count == 11)
    #expect(product.exploration.transitions.count == 30)
    // One more composite, which synchronizes nothing, and shows all of them as one state.
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
        // He thinks with two, one or no forks on the table, or eats.
        #expect(Set(shown.states).count >= 3, "\(seat.name)")
        #expect(Set(shown.states).isSubset(of: product.states(of: seat.components)))
      }
    }
  }
}
