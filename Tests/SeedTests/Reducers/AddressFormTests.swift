import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import Screens
import Testing

@Suite("The address form")
struct AddressFormTests {
  private typealias State = AddressForm.State
  private typealias Event = AddressForm.Event

  /// Returns every state that is reachable from the initial state by these events, found with the
  /// machine's own function.
  private func reachable(_ events: [Event]) -> Set<State> {
    let machine = AddressForm.stateMachine(NoParameters())
    var found: Set<State> = [machine.initial]
    var next = [machine.initial]
    while let state = next.popLast() {
      for event in events {
        guard case .next(let other) = machine.reduce(state, event) else { continue }
        if found.insert(other).inserted { next.append(other) }
      }
    }
    return found
  }

  @Test("Exactly the allowed states of the address form are reachable")
  func explored() {
    let texts = ["a", "b"]
    // Typed text may be blank, or have blanks around it.
    let typed = texts + ["", " ", " a "]
    let events: [Event] =
      typed.flatMap { text -> [Event] in
        [.cityChanged(to: text), .streetChanged(to: text), .houseChanged(to: text)]
      } + [.save, .didSave, .didReject(reason: "no"), .clear]
    var allowed: Set<State> = [.empty]
    for city in texts {
      allowed.insert(.city(city: city))
      for street in texts {
        allowed.insert(.street(city: city, street: street))
        for house in texts {
          let address = Address(city: city, street: street, house: house)
          allowed.formUnion([
            .complete(address), .saving(address), .saved(address),
            .rejected(address, reason: "no"),
          ])
        }
      }
    }
    #expect(reachable(events) == allowed)
    #expect(allowed.count == 1 + 2 + 4 + 4 * 8)
  }

  private static let address = Address(city: "a", street: "b", house: "c")

  @Test(
    "The address form refuses an event that its state does not allow",
    arguments: [
      (.empty, .streetChanged(to: "b")), (.empty, .houseChanged(to: "c")), (.empty, .save),
      (.city(city: "a"), .houseChanged(to: "c")), (.city(city: "a"), .save),
      (.city(city: "a"), .cityChanged(to: " a")), (.street(city: "a", street: "b"), .save),
      (.complete(address), .didSave), (.saving(address), .save),
      (.saving(address), .cityChanged(to: "x")), (.saving(address), .clear),
      (.saved(address), .houseChanged(to: "x")), (.saved(address), .save),
      (.rejected(address, reason: "no"), .didSave),
    ] as [(AddressForm.State, AddressForm.Event)])
  func refused(state: AddressForm.State, event: AddressForm.Event) {
    let machine = AddressForm.stateMachine(NoParameters())
    #expect(machine.reduce(state, event) == .refused(.noTransition))
  }

  @Test("A changed field of the address form clears the fields that depend on it")
  func changes() {
    let complete = State.complete(Self.address)
    #expect(AddressForm.reduce(complete, .cityChanged(to: "x")) == .city(city: "x"))
    #expect(
      AddressForm.reduce(complete, .streetChanged(to: "x")) == .street(city: "a", street: "x"))
    #expect(
      AddressForm.reduce(complete, .houseChanged(to: "")) == .street(city: "a", street: "b"))
    #expect(AddressForm.reduce(complete, .streetChanged(to: "")) == .city(city: "a"))
    #expect(AddressForm.reduce(complete, .cityChanged(to: "")) == .empty)
  }

  @Test("The address book stores each address once and replies each time")
  func book() {
    let other = Address(city: "x", street: "y", house: "z")
    let first = AddressBook.State.added(Self.address, all: [Self.address])
    #expect(AddressBook.reduce(.empty, .add(Self.address)) == .next(first))
    let again = AddressBook.State.known(Self.address, all: [Self.address])
    #expect(AddressBook.reduce(first, .add(Self.address)) == .next(again))
    #expect(AddressBook.reduce(again, .add(Self.address)) == .next(again))
    #expect(
      AddressBook.reduce(again, .add(other))
        == .next(.added(other, all: [Self.address, other])))
  }
}

@Suite("The washing machine as a function")
struct ReducedWashingMachineTests {
  private static let states: [WashingMachine.State] = [
    .coldAndEmpty, .fullWithHotWater, .waterHeated, .drumAgitating, .pumping, .fullWithColdWater,
    .spinning,
  ]

  @Test(
    "In every state, the washing machine as a function behaves like the 'When' and 'On' machine",
    arguments: states)
  func same(state: WashingMachine.State) {
    let parameters = WashingMachine.Parameters()
    let language = WashingMachine.stateMachine(parameters)
    let function = ReducedWashingMachine.stateMachine(parameters)
    for event in [WashingMachine.Event.start, .timeIsUp] {
      #expect(function.reduce(state, event) == language.reduce(state, event), "\(event)")
    }
    func units(_ output: WashingMachine.Output?) -> Int? {
      if case .wait(let units)? = output { units } else { nil }
    }
    #expect(units(function.output(state)) == units(language.output(state)))
  }

  @Test("The washing machine as a function goes through its seven states and starts over")
  func round() {
    var state = WashingMachine.State.coldAndEmpty
    var seen = [state]
    state = ReducedWashingMachine.reduce(state, .start)
    while state != .coldAndEmpty {
      seen.append(state)
      state = ReducedWashingMachine.reduce(state, .timeIsUp)
    }
    #expect(seen == Self.states)
  }
}
