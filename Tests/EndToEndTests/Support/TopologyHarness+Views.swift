import PipeRuntimeTestKit

extension TopologyHarness {
  /// Shows a node on a terminal.
  func view(
    _ view: String, _ node: String, program: String = "nodes", columns: Int = 60, rows: Int = 14,
    environment: [String: String] = [:]
  ) throws -> PseudoTerminal {
    try PseudoTerminal(
      CommandLineTool.products + "/" + program, ["view", view, node, "-p", topology],
      environment: directory.environment(adding: environment), columns: columns, rows: rows)
  }

  /// Shows the whole topology on a terminal, as `orchestrator ui` does.
  func screen(columns: Int = 80, rows: Int = 24) throws -> PseudoTerminal {
    try PseudoTerminal(
      CommandLineTool.orchestrator, ["ui", "-p", topology],
      environment: directory.environment(), columns: columns, rows: rows)
  }
}
