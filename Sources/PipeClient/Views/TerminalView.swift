import PipeMachines

/// A projection of a node's state to what a terminal shows of it: equal states look equal.
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
/// A program registers views under ``NodeProgram/views``. `PROGRAM view NAME NODE` attaches one to a
/// node of a running topology, as a process of its own, and leaves with `q` or ^C.
public protocol TerminalView: SendableMetatype {
  /// The states that are shown: those of the node, or what a composite is projected to.
  associatedtype State: Codable & Sendable
  /// What keys are turned into; `Never` where the view only shows.
  associatedtype Event: MachineEvent = Never

  /// The name that the command line uses. Default: the type's own name.
  static var name: String { get }

  /// What ``body(_:size:)`` needs at least. Default: 20 columns and 3 rows.
  static var minimumSize: TerminalSize { get }

  /// The lines that show a state. What is beyond the size is cut off.
  /// - Parameter size: The room that there is, not less than ``minimumSize``.
  static func body(_ state: State, size: TerminalSize) -> [StyledLine]

  /// The event that a key sends to the node; `nil` where it does nothing. Default: none does anything.
  ///
  /// `q`, ^C and ^Z do not come here.
  static func event(for key: Key, in state: State) -> Event?
}

extension TerminalView {
  /// The type's own name, without its module.
  public static var name: String { String(describing: Self.self) }

  /// 20 columns and 3 rows.
  public static var minimumSize: TerminalSize { TerminalSize(columns: 20, rows: 3) }

  /// None.
  public static func event(for key: Key, in state: State) -> Event? { nil }
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
