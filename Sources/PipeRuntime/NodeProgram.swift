import PipeClient
import PipeMachines

/// An executable that contains machines and runs one of them as a node. Mark a conforming type with
/// `@main`:
///
/// ```swift
/// @main struct Nodes: NodeProgram {
///   static let machines: [any Machine.Type] = [ElevatorDoor.self, FloorDisplay.self]
/// }
/// ```
///
/// The orchestrator calls the program's verbs `run`, `describe`, `explore` and `try-journals`. You
/// can call `list`, `monitor` and `view`.
public protocol NodeProgram {
  /// The machines that nodes of a topology can run.
  static var machines: [any Machine.Type] { get }
  /// The monitors that a topology can start. Default: none.
  static var monitors: [any Monitor.Type] { get }
  /// The states that composites of a topology can have. Default: none.
  static var composites: [any CompositeState.Type] { get }
  /// The views that show nodes on a terminal. Default: none.
  static var views: [any TerminalView.Type] { get }
}

extension NodeProgram {
  /// The default: no monitors.
  public static var monitors: [any Monitor.Type] { [] }

  /// The default: no composite states.
  public static var composites: [any CompositeState.Type] { [] }

  /// The default: no views.
  public static var views: [any TerminalView.Type] { [] }

  /// Runs the verb that the command line names, and ends the process.
  public static func main() {
    NodeCommand(
      machines: machines, monitors: monitors, composites: composites, views: views,
      arguments: CommandLine.arguments
    ).run()
  }
}
