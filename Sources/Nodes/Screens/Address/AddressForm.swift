import PipeRuntime

package struct Address: Codable, Hashable, Sendable {
  package var city: String
  package var street: String
  package var house: String

  package init(city: String, street: String, house: String) {
    self.city = city
    self.street = street
    self.house = house
  }
}

/// A form for an address. The user fills in the city, then the street, then the house.
///
/// Three optional fields and a separate status would also allow combinations that never occur. The
/// form has only these seven states.
package enum AddressForm: Machine {
  package enum State: MachineState, Hashable {
    case empty
    case city(city: String)
    case street(city: String, street: String)
    /// The address is complete and can be saved.
    case complete(Address)
    case saving(Address)
    case saved(Address)
    /// The address book rejected the address. The user can change it.
    case rejected(Address, reason: String)
  }

  package enum Event: MachineEvent, Hashable {
    case cityChanged(to: String)
    case streetChanged(to: String)
    case houseChanged(to: String)
    case save
    case didSave
    case didReject(reason: String)
    /// The user wants to enter the next address.
    case clear
  }

  package static func reduce(_ state: State, _ event: Event) -> State {
    switch (state, event) {
    case (.saving(let address), .didSave): .saved(address)
    case (.saving(let address), .didReject(let reason)): .rejected(address, reason: reason)
    case (.saving, _): state
    case (.saved, .clear): .empty
    case (.saved, _): state
    case (.complete(let address), .save), (.rejected(let address, _), .save): .saving(address)
    case (_, .cityChanged(let text)): replacing(.city, of: state, to: text.trimmed)
    case (_, .streetChanged(let text)): replacing(.street, of: state, to: text.trimmed)
    case (_, .houseChanged(let text)): replacing(.house, of: state, to: text.trimmed)
    case (_, .clear): .empty
    case (.empty, _), (.city, _), (.street, _), (.complete, _), (.rejected, _): state
    }
  }

  private enum Field { case city, street, house }

  /// Replaces the text of a field. If the new text differs from the former text, also clears the
  /// fields after this field, whose texts belong to the former text.
  private static func replacing(_ field: Field, of state: State, to text: String) -> State {
    let (city, street, house) = state.fields
    switch field {
    case .city:
      if text == city { return state }
      return text.isEmpty ? .empty : .city(city: text)
    case .street:
      guard let city, text != street else { return state }
      return text.isEmpty ? .city(city: city) : .street(city: city, street: text)
    case .house:
      guard let city, let street, text != house else { return state }
      return text.isEmpty
        ? .street(city: city, street: street)
        : .complete(Address(city: city, street: street, house: text))
    }
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: .empty, reduce: reduce)
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsSender(to: ports.pipe("addresses"), when: State.saving, send: AddressBook.Event.add)
      .connectAsReceiver(to: ports.pipe("answers"))
  }
}

extension AddressForm.State {
  var fields: (city: String?, street: String?, house: String?) {
    switch self {
    case .empty: (nil, nil, nil)
    case .city(let city): (city, nil, nil)
    case .street(let city, let street): (city, street, nil)
    case .complete(let address), .saving(let address), .saved(let address),
      .rejected(let address, _):
      (address.city, address.street, address.house)
    }
  }
}

extension String {
  var trimmed: String {
    let start = drop { $0.isWhitespace }
    guard let last = start.lastIndex(where: { !$0.isWhitespace }) else { return "" }
    return String(start[...last])
  }
}
