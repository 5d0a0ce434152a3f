/// A key that was pressed at a terminal. Shift, Ctrl and Alt with a key that moves are not told.
public enum Key: Hashable, Sendable {
  /// A key that writes.
  case character(Character)
  /// A letter with Ctrl, as a lower-case letter.
  case control(Character)
  /// A key with Alt.
  case alternate(Character)
  case enter
  case tab
  case backTab
  case backspace
  case delete
  case insert
  case escape
  case up
  case down
  case left
  case right
  case home
  case end
  case pageUp
  case pageDown
  /// F1 and so on.
  case function(Int)
}
