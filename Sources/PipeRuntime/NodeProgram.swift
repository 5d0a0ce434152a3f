import PipeClient
import PipeMachines

/// An executable that hosts machines as nodes. Mark a type of it with `@main`:
///
/// ```swift
/// @main struct Nodes: NodeProgram {
///   static let machines: [any Machine.Type] = [ElevatorDoor.self, FloorDisplay.self]
/// }
/// ```
///
/// The program then has the verbs `run`, `describe` and `explore` (called by the orchestrator), `list`,
/// `monitor` and `view`.
public protocol NodeProgram {
  /// The machines that topologies may use.
  static var machines: [any Machine.Type] { get }
  /// The monitors that topologies may use. Default: none.
  static var monitors: [any Monitor.Type] { get }
  /// The composite states that a topology's composites may use. Default: none.
  static var composites: [any CompositeState.Type] { get }
  /// The views that show nodes on a terminal. Default: none.
  static var views: [any TerminalView.Type] { get }
}

extension NodeProgram {
  /// No monitors.
  public static var monitors: [any Monitor.Type] { [] }

  /// No composite states.
  public static var composites: [any CompositeState.Type] { [] }

  /// No views.
  public static var views: [any TerminalView.Type] { [] }

  /// Runs the verb that the arguments name, and exits.
  public static func main() {
    NodeCommand(
      machines: machines, monitors: monitors, composites: composites, views: views,
      arguments: CommandLine.arguments
    ).run()
  }
}
