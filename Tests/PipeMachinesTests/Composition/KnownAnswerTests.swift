import PipeMachines
import Testing

/// Compares the numbers of reachable states and transitions with known ones. The compositions of
/// the examples are in NodesTests.
@Suite("Compositions with known answers")
struct KnownAnswerTests {
  private func expect(
    _ product: Product, states: Int, transitions: Int, deadlocks: Int,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let found = try product.explore()
    #expect(found.states.count == states, sourceLocation: sourceLocation)
    #expect(found.transitions.count == transitions, sourceLocation: sourceLocation)
    #expect(found.deadlocks.count == deadlocks, sourceLocation: sourceLocation)
    #expect(found.untriedEvents == [], sourceLocation: sourceLocation)
  }

  @Test("Interlock: one component waits until the other is ready for their event")
  func interlock() throws {
    let product = try Product(
      "interlock",
      [
        component("P", [Arrow(0, .x, 1)]),
        component("Q", [Arrow(0, .y, 1), Arrow(1, .x, 2)]),
      ], synchronize: ["x"])
    try expect(product, states: 3, transitions: 2, deadlocks: 1)
    let end = try #require(product.explore().deadlocks.first)
    #expect("\(end)" == "(at(1), at(2))")
    #expect(try product.explore().path(to: end)?.map { "\($0)" } == ["Q: y", "interlock: x"])
  }

  @Test("Left-right: the components' own events interleave with the synchronized event")
  func leftRight() throws {
    let product = try Product(
      "lr",
      [
        component("L", [Arrow(0, .blue, 1), Arrow(1, .sync, 0)]),
        component("R", [Arrow(0, .red, 1), Arrow(1, .sync, 0)]),
      ], synchronize: ["sync"])
    try expect(product, states: 4, transitions: 5, deadlocks: 0)
  }

  @Test("Bystander: a component without the event in its alphabet takes no part")
  func bystander() throws {
    let product = try Product(
      "bystander",
      [
        component("A", [Arrow(0, .e, 1)]), component("B", [Arrow(0, .e, 1)]),
        component("C", [Arrow(0, .z, 0)]),
      ], synchronize: ["e"])
    #expect(product.composition.vectors.map(\.participants) == [["A", "B"]])
    try expect(product, states: 2, transitions: 3, deadlocks: 0)
  }

  @Test(
    "Philosophers that take the left fork first have one deadlock: each of them holds one fork",
    arguments: [(3, 35, 66), (5, 392, 1_250)])
  func leftFirst(count: Int, states: Int, transitions: Int) throws {
    let product = try LeftFirst.product(count)
    try expect(product, states: states, transitions: transitions, deadlocks: 1)
    let found = try product.explore()
    let deadlock = try #require(found.deadlocks.first)
    #expect(found.path(to: deadlock)?.count == count)
    #expect(deadlock.components.prefix(count).allSatisfy { "\($0)" == "hasLeft" })
  }

  @Test(
    "Philosophers that take both forks in one event have no deadlock",
    arguments: [(5, 11, 30), (10, 123, 680)])
  func threeParty(count: Int, states: Int, transitions: Int) throws {
    try expect(
      ThreeParty.product(count), states: states, transitions: transitions, deadlocks: 0)
  }

  @Test("A product with more states than allowed causes an error")
  func bound() throws {
    let product = try LeftFirst.product(5)
    #expect(try product.explore(limit: 392).states.count == 392)
    #expect(throws: ExplorationError.tooManyStates(limit: 391)) {
      try product.explore(limit: 391)
    }
  }
}
