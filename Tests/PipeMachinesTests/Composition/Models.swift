import PipeMachines

/// The states of the small models, as integers, so that a model's table looks like a table on
/// paper.
enum Spot: MachineState, Hashable {
  case at(Int)
}

/// The events of the small models.
enum Small: MachineEvent, Hashable {
  case x, y, z, e, blue, red, sync
}

/// A row `A -e-> B` of a model's table.
struct Arrow<Event: MachineEvent & Hashable> {
  var from: Int
  var event: Event
  var to: Int

  init(_ from: Int, _ event: Event, _ to: Int) {
    self.from = from
    self.event = event
    self.to = to
  }
}

/// Returns a machine with exactly these transitions.
func machine(_ arrows: [Arrow<Small>]) -> StateMachine<Spot, Small, Never> {
  StateMachine(initial: Spot.at(0)) {
    When(state: Spot.at) { place in
      for arrow in arrows where arrow.from == place {
        On(event: arrow.event) { Transition(to: Spot.at(arrow.to)) }
      }
    }
  }
}

/// Returns a component with exactly these transitions, and exactly their events in its alphabet.
func component(_ name: String, _ arrows: [Arrow<Small>]) -> AnyComponent {
  AnyComponent(
    Component(
      name, machine: machine(arrows), alphabet: Set(arrows.map { "\($0.event)" }).sorted()))
}

/// Philosophers that take one fork after the other, the left one first.
enum LeftFirst {
  enum Philosopher: MachineState, Hashable { case thinking, hasLeft, hasBoth, sated, hasRight }
  enum Fork: MachineState, Hashable { case free, heldAsLeft, heldAsRight }
  enum Event: MachineEvent, Hashable { case getLeft, getRight, eat, putLeft, putRight }

  static var philosopher: StateMachine<Philosopher, Event, Never> {
    StateMachine(initial: Philosopher.thinking) {
      When(state: Philosopher.thinking) {
        On(event: Event.getLeft) { Transition(to: Philosopher.hasLeft) }
      }
      When(state: Philosopher.hasLeft) {
        On(event: Event.getRight) { Transition(to: Philosopher.hasBoth) }
      }
      When(state: Philosopher.hasBoth) {
        On(event: Event.eat) { Transition(to: Philosopher.sated) }
      }
      When(state: Philosopher.sated) {
        On(event: Event.putLeft) { Transition(to: Philosopher.hasRight) }
      }
      When(state: Philosopher.hasRight) {
        On(event: Event.putRight) { Transition(to: Philosopher.thinking) }
      }
    }
  }

  /// A fork is the left fork of one philosopher and the right fork of another one.
  static var fork: StateMachine<Fork, Event, Never> {
    StateMachine(initial: Fork.free) {
      When(state: Fork.free) {
        On(event: Event.getLeft) { Transition(to: Fork.heldAsLeft) }
        On(event: Event.getRight) { Transition(to: Fork.heldAsRight) }
      }
      When(state: Fork.heldAsLeft) {
        On(event: Event.putLeft) { Transition(to: Fork.free) }
      }
      When(state: Fork.heldAsRight) {
        On(event: Event.putRight) { Transition(to: Fork.free) }
      }
    }
  }

  static func product(_ count: Int) throws -> Product {
    let seats = 0..<count
    return try Product(
      seats.map { AnyComponent(Component("philosopher\($0)", machine: philosopher)) }
        + seats.map { AnyComponent(Component("fork\($0)", machine: fork)) },
      composites: seats.flatMap { seat in
        [
          CompositeDeclaration(
            "left\(seat)", components: ["philosopher\(seat)", "fork\(seat)"],
            synchronize: ["getLeft", "putLeft"]),
          CompositeDeclaration(
            "right\(seat)", components: ["philosopher\(seat)", "fork\((seat + 1) % count)"],
            synchronize: ["getRight", "putRight"]),
        ]
      })
  }
}

/// Philosophers that take both forks in one event with three participants.
enum ThreeParty {
  enum Philosopher: MachineState, Hashable { case thinking, eating }
  enum Fork: MachineState, Hashable { case free, held }
  enum Event: MachineEvent, Hashable { case take, release }

  static var philosopher: StateMachine<Philosopher, Event, Never> {
    StateMachine(initial: Philosopher.thinking) {
      When(state: Philosopher.thinking) {
        On(event: Event.take) { Transition(to: Philosopher.eating) }
      }
      When(state: Philosopher.eating) {
        On(event: Event.release) { Transition(to: Philosopher.thinking) }
      }
    }
  }

  static var fork: StateMachine<Fork, Event, Never> {
    StateMachine(initial: Fork.free) {
      When(state: Fork.free) {
        On(event: Event.take) { Transition(to: Fork.held) }
      }
      When(state: Fork.held) {
        On(event: Event.release) { Transition(to: Fork.free) }
      }
    }
  }

  static func seats(_ count: Int) -> [CompositeDeclaration] {
    (0..<count).map { seat in
      CompositeDeclaration(
        "seat\(seat)",
        components: ["philosopher\(seat)", "fork\(seat)", "fork\((seat + 1) % count)"],
        synchronize: ["take", "release"])
    }
  }

  static func product(_ count: Int) throws -> Product {
    try Product(
      (0..<count).map { AnyComponent(Component("philosopher\($0)", machine: philosopher)) }
        + (0..<count).map { AnyComponent(Component("fork\($0)", machine: fork)) },
      composites: seats(count))
  }
}
