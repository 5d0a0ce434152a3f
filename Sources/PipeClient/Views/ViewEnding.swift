/// How a view ended.
package enum ViewEnding: Hashable, Sendable {
  /// By a key, by SIGINT or SIGTERM, by `-n`, or since nobody reads what it prints.
  case quit
  /// The terminal was closed.
  case terminalClosed
  /// The node does not run any more, for this reason.
  case nodeDown(node: String, reason: String)
  /// The topology went down, or its orchestrator.
  case topologyDown(String)
  /// The node's states are not those that the view shows.
  case otherStates(node: String, view: String, problem: String)
  /// It could not begin, or go on.
  case failed(String, code: Int32)

  /// What is told on standard error.
  package var message: String? {
    switch self {
    case .quit, .terminalClosed: nil
    case .nodeDown(let node, let reason):
      "node '\(node)' does not run any more: \(reason)"
    case .topologyDown(let reason): reason
    case .otherStates(let node, let view, let problem):
      "view '\(view)' cannot show node '\(node)': \(problem). Name a node whose states it shows."
    case .failed(let problem, _): problem
    }
  }

  /// The exit code of the process. Source: DESIGN.md 6.
  package var exitCode: Int32 {
    switch self {
    case .quit: 0
    case .terminalClosed, .nodeDown, .topologyDown: 1
    case .otherStates: 2
    case .failed(_, let code): code
    }
  }
}
