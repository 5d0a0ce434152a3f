import PipeMachines
import PipeSupport

/// A projection of a node's state to a screen on a terminal. Equal screens look equal.
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
/// A view with a state of its own, such as the selected row of a list or the text typed into a
/// field, shows a ``Screen`` of its own. It is made of the node's state and the view's own state:
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
/// A program registers views under ``NodeProgram/views``. `PROGRAM view NAME NODE` attaches a view
/// to a node of a running topology, in a process of its own. `q` or ^C leaves it.
public protocol TerminalView: SendableMetatype {
  /// The content of the screen.
  associatedtype Screen
  /// The states of the node, or the states that a composite is projected to. Default: the screens.
  associatedtype State: Codable & Sendable = Screen
  /// The events that keys are turned into; `Never` if the view only shows.
  associatedtype Event: MachineEvent = Never

  /// The name that the command line uses. Default: the type's own name.
  static var name: String { get }

  /// The minimum size for ``body(_:size:)``. Default: 20 columns and 3 rows.
  static var minimumSize: TerminalSize { get }

  /// Returns the first screen when the view opens. Default: the state.
  static func screen(of state: State) -> Screen

  /// Updates the screen to another state of the node, and keeps the view's own state. Default:
  /// keeps nothing.
  static func update(_ screen: inout Screen, to state: State, size: TerminalSize)

  /// Returns the lines that show a screen. Content beyond the size is cut off.
  /// - Parameter size: The available size, at least ``minimumSize``.
  static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine]

  /// Returns the event that a key sends to the node; `nil` if the key sends none. Default: no key
  /// sends one.
  ///
  /// `q`, ^C and ^Z are not passed to this function.
  static func event(for key: Key, in screen: Screen) -> Event?

  /// Handles a key like ``event(for:in:)``, for a view whose keys change its screen, too. Default:
  /// they do not.
  static func press(_ key: Key, in screen: inout Screen, size: TerminalSize) -> Event?

  /// Returns whether keys write into a text. If so, `q` is such a key, and only ^C ends the view.
  /// Default: they do not.
  static func takesText(_ screen: Screen) -> Bool

  /// Returns the event to send when the view opens, and again when the node was restarted. Default: none.
  ///
  /// This event and the next two are not sent to a constant node, or without a terminal.
  static func onAppear(_ screen: Screen) -> Event?

  /// Returns the event to send when the view is left: by a key, by a signal, or because its
  /// terminal was closed. Default: none. The view waits at most a second for the answer.
  static func onDisappear(_ screen: Screen) -> Event?

  /// Returns the event for items that have become visible, such as the last row of a list that can
  /// grow. Default: none.
  ///
  /// The function is called after each change of the screen or of its size. The event is not sent
  /// twice in one state of the node.
  static func onShow(_ screen: Screen, size: TerminalSize) -> Event?
}

extension TerminalView {
  /// The type's own name, without its module.
  public static var name: String { TypeName.own(Self.self) }

  /// 20 columns and 3 rows.
  public static var minimumSize: TerminalSize { TerminalSize(columns: 20, rows: 3) }

  /// Replaces the screen with the first screen of the state.
  public static func update(_ screen: inout Screen, to state: State, size: TerminalSize) {
    screen = self.screen(of: state)
  }

  /// No event.
  public static func event(for key: Key, in screen: Screen) -> Event? { nil }

  /// Leaves the screen unchanged, and returns the key's event.
  public static func press(_ key: Key, in screen: inout Screen, size: TerminalSize) -> Event? {
    event(for: key, in: screen)
  }

  /// Keys do not write into a text.
  public static func takesText(_ screen: Screen) -> Bool { false }

  /// No event.
  public static func onAppear(_ screen: Screen) -> Event? { nil }

  /// No event.
  public static func onDisappear(_ screen: Screen) -> Event? { nil }

  /// No event.
  public static func onShow(_ screen: Screen, size: TerminalSize) -> Event? { nil }
}

extension TerminalView where Screen == State {
  /// The state.
  public static func screen(of state: State) -> Screen { state }
}

/// A size on a terminal.
public struct TerminalSize: Hashable, Sendable, CustomStringConvertible {
  /// The number of characters in a line. Wide characters count twice.
  public var columns: Int
  /// The number of lines.
  public var rows: Int

  /// Makes a size.
  public init(columns: Int, rows: Int) {
    self.columns = columns
    self.rows = rows
  }

  /// `80×24`
  public var description: String { "\(columns)×\(rows)" }
}

/// The content that a view shows of a node, whatever its types.
package protocol ViewContent {
  /// Shows another state of the node.
  mutating func show(_ state: JSONValue, size: TerminalSize) throws
  /// Handles a key. Returns its event, as JSON.
  mutating func press(_ key: Key, size: TerminalSize) throws -> JSONValue?
  func body(size: TerminalSize) -> [StyledLine]
  var takesText: Bool { get }
  /// Returns the event for a moment of the view.
  func event(at moment: ViewMoment, size: TerminalSize) throws -> JSONValue?
}

/// A moment of a view, other than a key.
package enum ViewMoment {
  case appearing
  case disappearing
  /// The visible items have changed.
  case showing
}

/// Opens a view on the first state that is received of a node.
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
