import PipeMachines
import PipeSupport

/// A view that shows a node's state on a terminal. The lines that it shows depend only on its
/// ``Screen`` and on the size of the terminal.
///
/// ```swift
/// enum DoorView: TerminalView {
///   static func body(_ state: ElevatorDoor.State, size: TerminalSize) -> [StyledLine] {
///     ["The door is \(state)"]
///   }
///   static func event(for key: Key, in state: ElevatorDoor.State) -> ElevatorDoor.Event? {
///     key == .character("c") ? .closeButtonWasPressed : nil
///   }
/// }
/// ```
///
/// If a view has a state of its own, such as the selected row of a list or the text in a field,
/// declare a ``Screen`` that contains both the node's state and the view's state:
///
/// ```swift
/// enum QuizesView: TerminalView {
///   struct Screen {
///     var state: QuizesList.State
///     var list = TerminalList()
///   }
///   static func screen(of state: QuizesList.State) -> Screen { Screen(state: state) }
///   static func update(_ screen: inout Screen, to state: QuizesList.State, size: TerminalSize) {
///     screen.state = state
///   }
///   static func onAppear(_ screen: Screen) -> QuizesList.Event? {
///     screen.state == .start ? .onAppear : nil
///   }
///   …
/// }
/// ```
///
/// A program lists its views in ``NodeProgram/views``. `PROGRAM view NAME NODE` attaches a view to
/// a node of a running topology, in a separate process. The user leaves the view with `q` or ^C.
public protocol TerminalView: SendableMetatype {
  /// The content that the view shows.
  associatedtype Screen
  /// The type of the node's states. For a composite, the type of the states that its projection
  /// returns. Default: `Screen`.
  associatedtype State: Codable & Sendable = Screen
  /// The type of the events that keys send; `Never` if keys send none.
  associatedtype Event: MachineEvent = Never

  /// The name of the view on the command line. Default: the type's own name.
  static var name: String { get }

  /// The minimum size for ``body(_:size:)``. Default: 20 columns and 3 rows.
  static var minimumSize: TerminalSize { get }

  /// Returns the screen when the view opens. Default: the node's state.
  static func screen(of state: State) -> Screen

  /// Updates the screen when the node's state changes. An implementation must keep the view's own
  /// state. The default creates a new screen from the node's state.
  static func update(_ screen: inout Screen, to state: State, size: TerminalSize)

  /// Returns the lines that show a screen. Content beyond the size is cut off.
  /// - Parameter size: The available size, at least ``minimumSize``.
  static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine]

  /// Returns the event that a key sends to the node; `nil` if the key sends none. By default, no
  /// key sends an event.
  ///
  /// This function does not receive `q`, ^C or ^Z.
  static func event(for key: Key, in screen: Screen) -> Event?

  /// Handles a key like ``event(for:in:)``, and can also change the screen. By default, keys do not
  /// change the screen.
  static func press(_ key: Key, in screen: inout Screen, size: TerminalSize) -> Event?

  /// Returns whether the user is typing text now. If so, `q` is entered as text, and only ^C ends
  /// the view. Default: `false`.
  static func takesText(_ screen: Screen) -> Bool

  /// Returns the event to send when the view opens, and again after the node was restarted.
  /// Default: none.
  ///
  /// Two kinds of views do not send the events of this function, ``onDisappear(_:)`` and
  /// ``onShow(_:size:)``: views of a constant node, and views that are printed because there is no
  /// terminal.
  static func onAppear(_ screen: Screen) -> Event?

  /// Returns the event to send when the view ends: by a key, by a signal, or because its terminal
  /// was closed. Default: none. The view waits for the answer for at most a second.
  static func onDisappear(_ screen: Screen) -> Event?

  /// Returns the event to send when items become visible. For example, a list requests more rows
  /// when its last row becomes visible. Default: none.
  ///
  /// The function is called after each change of the screen or of its size. The same event is not
  /// sent again while the node's state stays the same.
  static func onShow(_ screen: Screen, size: TerminalSize) -> Event?
}

extension TerminalView {
  /// The type's own name, without its module.
  public static var name: String { TypeName.unqualified(Self.self) }

  /// The default minimum size: 20 columns and 3 rows.
  public static var minimumSize: TerminalSize { TerminalSize(columns: 20, rows: 3) }

  /// Replaces the screen with the screen that ``screen(of:)`` returns for the new state.
  public static func update(_ screen: inout Screen, to state: State, size: TerminalSize) {
    screen = self.screen(of: state)
  }

  /// By default, keys send no event.
  public static func event(for key: Key, in screen: Screen) -> Event? { nil }

  /// Leaves the screen unchanged, and returns the key's event.
  public static func press(_ key: Key, in screen: inout Screen, size: TerminalSize) -> Event? {
    event(for: key, in: screen)
  }

  /// By default, keys do not enter text.
  public static func takesText(_ screen: Screen) -> Bool { false }

  /// By default, no event is sent when the view opens.
  public static func onAppear(_ screen: Screen) -> Event? { nil }

  /// By default, no event is sent when the view ends.
  public static func onDisappear(_ screen: Screen) -> Event? { nil }

  /// By default, no event is sent when items become visible.
  public static func onShow(_ screen: Screen, size: TerminalSize) -> Event? { nil }
}

extension TerminalView where Screen == State {
  /// Returns the node's state, which is the screen.
  public static func screen(of state: State) -> Screen { state }
}

/// The size of a terminal, or of an area on a terminal.
public struct TerminalSize: Hashable, Sendable, CustomStringConvertible {
  /// The number of characters in a line. Wide characters count twice.
  public var columns: Int
  /// The number of lines.
  public var rows: Int

  /// Creates a size.
  public init(columns: Int, rows: Int) {
    self.columns = columns
    self.rows = rows
  }

  /// The size as text, such as `80×24`.
  public var description: String { "\(columns)×\(rows)" }
}

/// The content that a view shows for a node. The protocol hides the view's types, so that
/// ``ViewSession`` can show every view.
package protocol ViewContent {
  /// Shows the node's new state.
  mutating func show(_ state: JSONValue, size: TerminalSize) throws
  /// Handles a key. Returns the event that the key sends, as JSON; `nil` if the key sends none.
  mutating func press(_ key: Key, size: TerminalSize) throws -> JSONValue?
  func body(size: TerminalSize) -> [StyledLine]
  var takesText: Bool { get }
  /// Returns the event that the view sends at a moment of its lifetime, as JSON; `nil` if it sends
  /// none.
  func event(at moment: ViewMoment, size: TerminalSize) throws -> JSONValue?
}

/// A moment at which a view may send an event although no key was pressed.
package enum ViewMoment {
  case appearing
  case disappearing
  /// The visible items have changed.
  case showing
}

/// Creates the content of a view from the first state that the node has reported.
package protocol ViewReader {
  func read(_ state: JSONValue) throws -> any ViewContent
}

extension TerminalView {
  /// Returns a reader of the view's states.
  package static func reader() -> any ViewReader { ViewStateReader<Self>() }
}

private final class ViewStateReader<View: TerminalView>: ViewReader {
  private let codec = EventCodec<View.State>()

  func read(_ state: JSONValue) throws -> any ViewContent {
    ViewedScreen<View>(codec: codec, screen: View.screen(of: try codec.decode(state.bytes)))
  }
}

private struct ViewedScreen<View: TerminalView>: ViewContent {
  let codec: EventCodec<View.State>
  var screen: View.Screen

  mutating func show(_ state: JSONValue, size: TerminalSize) throws {
    View.update(&screen, to: try codec.decode(state.bytes), size: size)
  }

  mutating func press(_ key: Key, size: TerminalSize) throws -> JSONValue? {
    try json(View.press(key, in: &screen, size: size))
  }

  func body(size: TerminalSize) -> [StyledLine] { View.body(screen, size: size) }

  var takesText: Bool { View.takesText(screen) }

  func event(at moment: ViewMoment, size: TerminalSize) throws -> JSONValue? {
    switch moment {
    case .appearing: try json(View.onAppear(screen))
    case .disappearing: try json(View.onDisappear(screen))
    case .showing: try json(View.onShow(screen, size: size))
    }
  }

  private func json(_ event: View.Event?) throws -> JSONValue? {
    try event.map { try JSONValue(parsing: EventCodec<View.Event>().encode($0)) }
  }
}
