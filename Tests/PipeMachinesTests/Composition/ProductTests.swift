import PipeMachines
import Testing

@Suite("The product of machines")
struct ProductTests {
  private let door = Component("door", machine: Lift.door)
  private let motor = Component("motor", machine: Lift.motor)

  private func lift() throws -> TupleProduct<Lift.Door, Lift.Motor> {
    try TupleProduct("lift", door, motor, synchronize: ["open", "emergencyStop"])
  }

  @Test("A product's state is the tuple of the components' states, with their own types")
  func tuple() throws {
    let lift = try lift()
    #expect(lift.initial == (.closed, .standing(floor: 0)))
    let moving = try #require(try lift.next(lift.initial, .go(to: 3), of: motor))
    #expect(moving == (.closed, .moving(to: 3)))
  }

  @Test("All participants take a synchronized event with one payload, by their own transitions")
  func synchronized() throws {
    let lift = try lift()
    let open = SynchronizedEvent(Lift.DoorEvent.open)
    let opened = try #require(try lift.next(lift.initial, open))
    #expect(opened == (.open(persons: 0), .standing(floor: 0)))
    let stop = SynchronizedEvent(Lift.MotorEvent.emergencyStop(code: 112))
    #expect(try #require(try lift.next(opened, stop)) == (.stopped, .stopped))
  }

  @Test("A synchronized event that one participant refuses is refused by all, with the reason")
  func refused() throws {
    let lift = try lift()
    let moving = lift.productState(.closed, .moving(to: 2))
    let open = ProductEvent.synchronized(SynchronizedEvent(named: "open"), composite: "lift")
    #expect(try lift.next(lift.states(of: moving), SynchronizedEvent(named: "open")) == nil)
    #expect(
      try lift.product.enabledness(of: open, in: moving).blockers == [
        BlockingParticipant(
          participant: "motor", state: ["moving": ["to": 2]], version: nil, reason: .noTransition)
      ])
    let boarding = lift.productState(.open(persons: 1), .stopped)
    let stop = ProductEvent.synchronized(
      SynchronizedEvent(Lift.DoorEvent.emergencyStop(code: 1)), composite: "lift")
    let blockers = try lift.product.enabledness(of: stop, in: boarding).blockers
    #expect(blockers.map(\.participant) == ["door", "motor"])
    #expect(blockers.map(\.reason) == [.guard, .noTransition])
    #expect(
      blockers[0].description == """
        'door' refuses the event in state {"open":{"persons":1}}: the transition's guard is false
        """)
  }

  @Test("A synchronized event sent to one component causes an error that names the composite")
  func direct() throws {
    let lift = try lift()
    #expect(throws: RoutingError.requiresComposite("open", composite: "lift")) {
      try lift.next(lift.initial, .open, of: door)
    }
    #expect(throws: RoutingError.notSynchronized("close", composite: "lift")) {
      try lift.next(lift.initial, SynchronizedEvent(named: "close"))
    }
    #expect(throws: RoutingError.unknownComponent("roof")) {
      try lift.next(lift.initial, .open, of: Component("roof", machine: Lift.door))
    }
    #expect(throws: RoutingError.noEvent(.unknownCase("go", type: "MotorEvent"), component: "door"))
    {
      try lift.next(
        lift.initial, .go(to: 1), of: Component("door", machine: Lift.motor))
    }
  }

  @Test("A payload that a participant cannot decode causes an error, not a refusal")
  func payloads() throws {
    let lift = try lift()
    let event = try SynchronizedEvent(json: ["emergencyStop": ["number": 1]])
    #expect {
      try lift.next(lift.initial, event)
    } throws: { error in
      guard case RoutingError.noEvent(.payloadMismatch("emergencyStop", _, _), "door") = error
      else { return false }
      return true
    }
    let written = try SynchronizedEvent(json: ["emergencyStop": ["code": 7]])
    #expect(try #require(try lift.next(lift.initial, written)) == (.stopped, .stopped))
    #expect(written == SynchronizedEvent(Lift.DoorEvent.emergencyStop(code: 7)))
    #expect(try SynchronizedEvent(json: "open") == SynchronizedEvent(json: ["open": [:]]))
    for json: JSONValue in [1, ["a": 1, "b": 2], .null, [], true] {
      #expect(throws: SynchronizedEventError.noCase(json)) { try SynchronizedEvent(json: json) }
    }
  }

  @Test("The enabled events of a product can be queried together")
  func allEvents() throws {
    let product = try ThreeParty.product(3)
    let state = try #require(
      try product.explore().states.first { "\($0.components[0])" == "eating" })
    let enabled = product.enabledness(in: state).filter(\.isEnabled)
    #expect(enabled.map { "\($0.event)" } == ["seat0: release"])
    let blockers = try #require(
      product.enabledness(in: state).first { "\($0.event)" == "seat1: take" })
    #expect(blockers.blockers.map(\.participant) == ["fork1"])
    #expect(blockers.participants == ["fork1", "fork2", "philosopher1"])
  }

  @Test("A product is stable if no component has a pending output")
  func stable() throws {
    let lift = try lift()
    #expect(lift.product.isStable(lift.product.initial))
    #expect(!lift.product.isStable(lift.productState(.closed, .moving(to: 2))))
  }

  @Test("A projection is made from an initializer with a parameter for each component")
  func projection() throws {
    let lift = try lift()
    let boarding = lift.productState(.open(persons: 2), .standing(floor: 4))
    #expect(try LiftState.projection(boarding) == .boarding(persons: 2, floor: 4))
    #expect(LiftState.projection.types == ["Door", "Motor"])
    #expect(
      try LiftState.projection(json: ["stopped", ["moving": ["to": 1]]]) == .stopped)
    #expect(try LiftState.projection(json: ["closed", ["moving": ["to": 1]]]) == .moving)
    #expect(!LiftState.moving.isStable)
    #expect(throws: ProjectionError.componentCount(1, expected: 2)) {
      try LiftState.projection(json: ["closed"])
    }
    #expect(throws: ProjectionError.type("Motor", index: 0, expected: "Door")) {
      try LiftState.projection(ProductState([Lift.Motor.stopped, Lift.Motor.stopped]))
    }
    #expect(throws: ProjectionError.type("\"flying\"", index: 1, expected: "Motor")) {
      try LiftState.projection(json: ["closed", "flying"])
    }
  }

  @Test("Transaction numbers are ordered, and are unchanged by encoding and decoding")
  func transactions() throws {
    let first = TransactionID(epoch: 1, sequence: 9)
    #expect(first < TransactionID(epoch: 2, sequence: 1))
    #expect(TransactionID("\(first)") == first)
    #expect(try JSONValue(encoding: first) == "1.9")
    #expect(try JSONValue.string("1.9").decode(TransactionID.self) == first)
    #expect(throws: DecodingError.self) { try JSONValue.string("1").decode(TransactionID.self) }
    for text in ["", "1", "1.", ".1", "1.2.3", "-1.2", "a.b"] {
      #expect(TransactionID(text) == nil)
    }
  }
}
