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
}
