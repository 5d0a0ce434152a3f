import PipeRuntime

/// A view of the address form. It sends the text of a field when the user leaves the field with
/// Enter or Tab.
package enum AddressView: TerminalView {
  package enum Field: CaseIterable, Hashable, Sendable { case city, street, house, save }

  package struct Screen {
    package var state: AddressForm.State
    var city = TerminalTextField(byteLimit: 256)
    var street = TerminalTextField(byteLimit: 256)
    var house = TerminalTextField(byteLimit: 64)
    var focus = TerminalFocus(Field.city)

    /// Whether the user can edit the fields.
    var isEditable: Bool {
      switch state {
      case .saving, .saved: false
      case .empty, .city, .street, .complete, .rejected: true
      }
    }
  }

  package static let minimumSize = TerminalSize(columns: 40, rows: 8)

  package static func screen(of state: AddressForm.State) -> Screen {
    var screen = Screen(state: state)
    let fields = state.fields
    screen.city.text = fields.city ?? ""
    screen.street.text = fields.street ?? ""
    screen.house.text = fields.house ?? ""
    return screen
  }

  /// Updates the view to a state of the form. Keeps what the user has typed, except in fields that
  /// the form itself has changed.
  package static func update(
    _ screen: inout Screen, to state: AddressForm.State, size: TerminalSize
  ) {
    let (old, new) = (screen.state.fields, state.fields)
    screen.state = state
    if new.city != old.city { screen.city.text = new.city ?? "" }
    if new.street != old.street { screen.street.text = new.street ?? "" }
    if new.house != old.house { screen.house.text = new.house ?? "" }
    if case .empty = state, old.city != nil { screen.focus.field = .city }
  }

  package static func takesText(_ screen: Screen) -> Bool {
    screen.isEditable && screen.focus.field != .save
  }

  // MARK: Appearance of the form

  package static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine] {
    func line(_ label: String, _ text: TerminalTextField, _ field: Field) -> StyledLine {
      StyledLine(label, .bold)
        + text.line(
          columns: size.columns - 8, isFocused: screen.isEditable && screen.focus.field == field)
    }
    let isSaveFocused = screen.isEditable && screen.focus.field == .save
    return [
      StyledLine("Add an address", .bold), "",
      line("City    ", screen.city, .city), line("Street  ", screen.street, .street),
      line("House   ", screen.house, .house), "",
      isSaveFocused
        ? StyledLine("▶ [ Save ]", .bold, .reversed) : StyledLine("  [ Save ]", .dim),
      notice(screen.state),
    ]
  }

  private static func notice(_ state: AddressForm.State) -> StyledLine {
    switch state {
    case .empty, .city, .street: StyledLine("Enter goes to the next field", .dim)
    case .complete: StyledLine("Ready to save", .dim)
    case .saving: StyledLine("Saving…", .dim)
    case .saved: StyledLine("Saved. Enter adds another address", .color(.green))
    case .rejected(_, let reason): StyledLine("Not saved: \(reason)", .color(.red))
    }
  }

  // MARK: Keys of the form

  package static func press(
    _ key: Key, in screen: inout Screen, size: TerminalSize
  ) -> AddressForm.Event? {
    guard screen.isEditable else {
      if case .saved = screen.state, key == .enter { return .clear }
      return nil
    }
    let field = screen.focus.field
    if key == .enter, field == .save { return .save }
    let hasLeftField = screen.focus.press(key == .enter ? .tab : key)
    if hasLeftField { return change(of: field, in: screen) }
    switch field {
    case .city: _ = screen.city.press(key)
    case .street: _ = screen.street.press(key)
    case .house: _ = screen.house.press(key)
    case .save: break
    }
    return nil
  }

  /// Returns the event that sends the typed text of a field, unless the form already has this text.
  private static func change(of field: Field, in screen: Screen) -> AddressForm.Event? {
    let fields = screen.state.fields
    return switch field {
    case .city:
      differs(screen.city, fields.city) ? .cityChanged(to: screen.city.text) : nil
    case .street:
      differs(screen.street, fields.street) ? .streetChanged(to: screen.street.text) : nil
    case .house:
      differs(screen.house, fields.house) ? .houseChanged(to: screen.house.text) : nil
    case .save: nil
    }
  }

  private static func differs(_ field: TerminalTextField, _ known: String?) -> Bool {
    field.text.trimmed != (known ?? "")
  }
}
