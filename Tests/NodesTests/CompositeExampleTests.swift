import Nodes
import Compositions
import PipeRuntime
import PipeRuntimeTestKit
import Testing

@Suite("The composites of the examples")
struct CompositeExampleTests {
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

  // MARK: The vending machine

  @Test("The product of the vending machine has the known states, with a step for each payload")
  func vendingMachine() throws {
    let product = try ExampleComposition.product(
      of: "vending-machine.yaml",
      payloads: [
        "user": [
          VendingUser.Event.showPurchasable(more: true),
          VendingUser.Event.showPurchasable(more: false),
        ]
      ])
    try expect(product, states: 6, transitions: 8, deadlocks: 0)
    #expect(product.composition.vectors.count == 5)
  }

  @Test("An event without a sample payload is listed as untried")
  func untriedEvents() throws {
    let found = try ExampleComposition.product(of: "vending-machine.yaml").explore()
    #expect(found.untriedEvents == ["user: showPurchasable", "machine: showPurchasable"])
    #expect(found.states.count == 3)
  }

  @Test("The user pays the full price, and the vending machine accepts no choice before a coin")
  func sale() {
    XCTStateMachine(VendingUser.stateMachine(.init()))
      .assert(when: .paying, on: .showPurchasable(more: true), transitionTo: .gonnaBuy)
      .assert(when: .paying, on: .showPurchasable(more: false), transitionTo: .choosing)
      .assert(when: .gonnaBuy, execute: .insert)
      .assertNoTransition(when: .gonnaBuy, on: .choose)
    XCTStateMachine(VendingMachine.stateMachine(.init()))
      .assert(when: .idle, on: .showAvailable, transitionTo: .idle)
      .assert(when: .coins, execute: .weighCoin)
      .assert(when: .waitingChoice, on: .insert, transitionTo: .coins)
      .assert(when: .dropping, on: .drop, transitionTo: .idle)
      .assertNoTransition(when: .idle, on: .choose)
  }

  // MARK: The philosophers

  @Test("The product of five philosophers has the known states and no deadlock")
  func fivePhilosophers() throws {
    let product = try ExampleComposition.product(of: "philosophers.yaml")
    try expect(product, states: 11, transitions: 30, deadlocks: 0)
    #expect(product.composition.conflictClasses.count == 1)
  }

  @Test("The product of ten philosophers has the known states and no deadlock")
  func tenPhilosophers() throws {
    let seats = 0..<10
    let product = try Product(
      seats.map { ExampleComposition.component(Philosopher.self, name: "philosopher\($0)") }
        + seats.map { ExampleComposition.component(Fork.self, name: "fork\($0)") },
      composites: seats.map { seat in
        CompositeDeclaration(
          "seat\(seat)",
          components: ["philosopher\(seat)", "fork\(seat)", "fork\((seat + 1) % 10)"],
          synchronize: ["take", "release"])
      })
    try expect(product, states: 123, transitions: 680, deadlocks: 0)
  }

  @Test("A philosopher takes and releases forks, and a held fork cannot be taken")
  func philosopher() {
    XCTStateMachine(Philosopher.stateMachine(.init()))
      .assert(when: .thinking, execute: .think)
      .assert(when: .thinking, on: .take, transitionTo: .eating)
      .assert(when: .eating, execute: .eat)
      .assert(when: .eating, on: .release, transitionTo: .thinking)
      .assertNoTransition(when: .eating, on: .take)
    XCTStateMachine(Fork.stateMachine(.init()))
      .assert(when: .free, on: .take, transitionTo: .held)
      .assert(when: .held, on: .release, transitionTo: .free)
      .assertNoTransition(when: .held, on: .take)
  }

  // MARK: The lift

  private func lift() throws -> Product {
    try ExampleComposition.product(
      of: "lift.yaml",
      payloads: [
        "door": [LiftDoor.Event.enter(persons: 4)],
        "motor": (0..<5).map { LiftMotor.Event.go(floor: $0) },
      ])
  }

  @Test("The lift's door is never open while its motor moves, and the lift has no deadlock")
  func safeLift() throws {
    let product = try lift()
    let found = try product.explore()
    var moving = 0
    for state in found.states {
      let shown = try LiftState.projection(state)
      #expect(shown != .unsafe, "\(state)")
      guard case .moving = shown else { continue }
      moving += 1
      let open = try product.enabledness(
        of: .synchronized(SynchronizedEvent(named: "open"), composite: "lift"), in: state)
      #expect(open.blockers.map(\.participant) == ["motor"])
      #expect(!shown.isStable)
    }
    #expect(moving == 5 * 4)
    #expect(found.deadlocks.isEmpty)
    #expect(found.untriedEvents == [])
  }

  @Test("Without synchronized events, the lift's motor can move while the door is open")
  func unsafeLift() throws {
    let whole = try lift()
    let apart = try Product(whole.components, composites: [])
    let shown = try apart.explore().states.map { try LiftState.projection($0) }
    #expect(shown.contains(.unsafe))
  }

  @Test("The lift's door and motor refuse events that do not fit their states")
  func liftMachines() {
    XCTStateMachine(LiftDoor.stateMachine(.init()))
      .assert(when: .closed, on: .go(floor: 3), transitionTo: .closed)
      .assert(when: .open(persons: 1), on: .enter(persons: 2), transitionTo: .open(persons: 3))
      .assertNoTransition(when: .open(persons: 9), on: .enter(persons: 2), because: .guard)
      .assertNoTransition(when: .open(persons: 0), on: .go(floor: 1))
      .assert(when: .stopped, on: .reset, transitionTo: .closed)
    XCTStateMachine(LiftMotor.stateMachine(.init()))
      .assert(when: .standing(floor: 1), on: .open, transitionTo: .standing(floor: 1))
      .assert(when: .standing(floor: 1), on: .go(floor: 3), transitionTo: .moving(from: 1, to: 3))
      .assertNoTransition(when: .standing(floor: 1), on: .go(floor: 1), because: .guard)
      .assertNoTransition(when: .standing(floor: 1), on: .go(floor: 5), because: .guard)
      .assertNoTransition(when: .moving(from: 1, to: 3), on: .open)
      .assert(when: .moving(from: 3, to: 1), execute: .move(floors: 2))
      .assert(when: .moving(from: 1, to: 3), on: .emergencyStop, transitionTo: .stopped(floor: 1))
  }

  // MARK: The two models

  @Test("'eventX' resets both models in one step of the composite, or neither model")
  func models() async throws {
    let product = try ExampleComposition.product(of: "composite.yaml")
    let reset = ProductEvent.synchronized(SynchronizedEvent(named: "eventX"), composite: "models")
    let both = ProductState([ModelA.State.active(message: "a"), ModelB.State.failed])
    #expect(try ModelsState.projection(both) == .failed)
    guard case .suspended(let run) = try product.reduce(both, reset) else {
      Issue.record("not asynchronous")
      return
    }
    #expect(try await ModelsState.projection(run()) == .inactive)
    let half = ProductState([ModelA.State.active(message: "a"), ModelB.State.inactive])
    guard case .suspended(let attempt) = try product.reduce(half, reset) else {
      Issue.record("not asynchronous")
      return
    }
    await #expect(throws: ModelRefusal.nothingToReset) { try await attempt() }
    #expect(throws: ExplorationError.self) { try product.explore() }
  }

  @Test("The example program registers the composite states that the topology files name")
  func registered() {
    #expect(ExampleProgram.composites.map { $0.name } == ["LiftState", "ModelsState"])
    #expect(
      LiftState.description.components.map(\.type) == ["LiftDoor.State", "LiftMotor.State"])
  }
}
