import PipeMachines
import PipeSupport

/// A projection of a node's state to what a terminal shows of it: equal screens look equal.
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
/// A view that keeps something for itself, such as the selected row of a list or what is typed in a field,
/// shows a ``Screen`` of its own, made of the node's state and of that:
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
/// A program registers views under ``NodeProgram/views``. `PROGRAM view NAME NODE` attaches one to a
/// node of a running topology, as a process of its own, and leaves with `q` or ^C.
public protocol TerminalView: SendableMetatype {
  /// What is shown.
  associatedtype Screen
  /// The states of the node, or what a composite is projected to. Default: the screens.
  associatedtype State: Codable & Sendable = Screen
  /// What keys are turned into; `Never` where the view only shows.
  associatedtype Event: MachineEvent = Never

  /// The name that the command line uses. Default: the type's own name.
  static var name: String { get }

  /// What ``body(_:size:)`` needs at least. Default: 20 columns and 3 rows.
  static var minimumSize: TerminalSize { get }

  /// What is shown when the view opens. Default: the state.
  static func screen(of state: State) -> Screen

  /// Shows another state of the node, and keeps what is the view's own. Default: keeps nothing.
  static func update(_ screen: inout Screen, to state: State, size: TerminalSize)

  /// The lines that show a screen. What is beyond the size is cut off.
  /// - Parameter size: The room that there is, not less than ``minimumSize``.
  static func body(_ screen: Screen, size: TerminalSize) -> [StyledLine]

  /// The event that a key sends to the node; `nil` where it does nothing. Default: none does anything.
  ///
  /// `q`, ^C and ^Z do not come here.
  static func event(for key: Key, in screen: Screen) -> Event?

  /// As ``event(for:in:)``, for a view whose keys change its screen, too. Default: they do not.
  static func press(_ key: Key, in screen: inout Screen, size: TerminalSize) -> Event?

  /// Whether keys that write go into a text. `q` is such a key then, and only ^C ends the view.
  /// Default: they do not.
  static func takesText(_ screen: Screen) -> Bool

  /// The event that is sent when the view opens, and again when the node has been started anew.
  /// Default: none.
  ///
  /// Neither this one nor the next two are sent to a constant node, or where no terminal is.
  static func onAppear(_ screen: Screen) -> Event?

  /// The event that is sent when the view is left: by a key, by a signal, or since its terminal is
  /// closed. Default: none. The view waits for the answer for at most a second.
  static func onDisappear(_ screen: Screen) -> Event?

  /// The event of what has come into sight, such as the last row of a list that can grow. Default: none.
  ///
  /// It is asked for after each change of the screen or of its size, and not sent twice in one state of
  /// the node.
  static func onShow(_ screen: Screen, size: TerminalSize) -> Event?
}

extension TerminalView {
  /// The type's own name, without its module.
  public static var name: String { TypeName.own(Self.self) }

  /// 20 columns and 3 rows.
  public static var minimumSize: TerminalSize { TerminalSize(columns: 20, rows: 3) }

  /// What is shown when the view opens.
  public static func update(_ screen: inout Screen, to state: State, size: TerminalSize) {
    screen = self.screen(of: state)
  }

  /// None.
  public static func event(for key: Key, in screen: Screen) -> Event? { nil }

  /// The screen stays as it is.
  public static func press(_ key: Key, in screen: inout Screen, size: TerminalSize) -> Event? {
    event(for: key, in: screen)
  }

  /// They do not.
  public static func takesText(_ screen: Screen) -> Bool { false }

  /// None.
  public static func onAppear(_ screen: Screen) -> Event? { nil }

  /// None.
  public static func onDisappear(_ screen: Screen) -> Event? { nil }

  /// None.
  public static func onShow(_ screen: Screen, size: TerminalSize) -> Event? { nil }
}

extension TerminalView where Screen == State {
  /// The state.
  public static func screen(of state: State) -> Screen { state }
}

/// The room on a terminal.
public struct TerminalSize: Hashable, Sendable, CustomStringConvertible {
  /// Characters of one line, wide ones counting twice.
  public var columns: Int
  /// Lines.
  public var rows: Int

  /// Makes a size.
  public init(columns: Int, rows: Int) {
    self.columns = columns
    self.rows = rows
  }

  /// `80×24`
  public var description: String { "\(columns)×\(rows)" }
}

/// What a view shows of a node, whatever its types.
package protocol ViewContent {
  /// The node is in another state.
  mutating func show(_ state: JSONValue, size: TerminalSize) throws
  /// Takes a key; its event, as JSON.
  mutating func press(_ key: Key, size: TerminalSize) throws -> JSONValue?
  func body(size: TerminalSize) -> [StyledLine]
  var takesText: Bool { get }
  /// The event of what happens to the view.
  func event(at moment: ViewMoment, size: TerminalSize) throws -> JSONValue?
}

/// What happens to a view, other than keys.
package enum ViewMoment {
  case appearing
  case disappearing
  /// What is in sight has changed.
  case showing
}

/// Opens a view on the first state that is seen of a node.
package protocol ViewReader {
  func read(_ state: JSONValue) throws -> any ViewContent
}

extension TerminalView {
  /// A reader of the view's states.
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
