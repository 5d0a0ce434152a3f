import PipeRuntime

/// Stores each address once, and sends an answer to the address form.
package enum AddressBook: Machine {
  package enum State: MachineState, Hashable {
    case empty
    case added(Address, all: [Address])
    case known(Address, all: [Address])

    package var all: [Address] {
      switch self {
      case .empty: []
      case .added(_, let all), .known(_, let all): all
      }
    }
  }

  package enum Event: MachineEvent, Hashable {
    case add(Address)
  }

  /// The reducer refuses no event, since every address gets an answer, even an address that is
  /// already stored.
  package static func reduce(_ state: State, _ event: Event) -> Reduction<State> {
    switch event {
    case .add(let address):
      state.all.contains(address)
        ? .next(.known(address, all: state.all))
        : .next(.added(address, all: state.all + [address]))
    }
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: .empty, reduce: reduce)
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    let answers: EventPipe<AddressForm.Event> = ports.pipe("answers")
    return Runtime()
      .connectAsReceiver(to: ports.pipe("addresses"))
      .connectAsSender(to: answers, when: State.added, send: AddressForm.Event.didSave)
      .connectAsSender(
        to: answers, when: State.known,
        send: AddressForm.Event.didReject(reason: "this address already exists"))
  }
}
