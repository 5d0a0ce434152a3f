import PipeRuntime
import Testing

/// A topology that a test changes while it runs, and the expected plan of the change.
enum Ward {
  static let file = """
    topology: ward
    program: TestNodes
    nodes:
      same: { machine: Button }
      changed: { machine: Fragile }
      gone: { machine: Button }
    """

  static let changed =
    file
    .replacing("Fragile", with: "Fragile, parameters: { diesAtStart: false }")
    .replacing("gone:", with: "added:")

  static let plan = """
    ward: 1 node added, 1 removed, 1 restarted, 1 unchanged
    ~ changed  \(TopologyChange.Fate.restarts(.launch(.hosted)))
    + added    starts
    - gone     stops

    """
}

extension DetachedTopology {
  /// The output of `apply` for topology `ward` and an unchanged file.
  static let unchanged = "ward: \(TopologyChange(entries: []).summary)\n"

  /// Applies the topology's file.
  @discardableResult
  func apply(
    _ options: String..., code: Int32 = 0, at location: SourceLocation = #_sourceLocation
  ) async throws -> CommandLineTool.Result {
    try await run(["apply", name + ".yaml"] + options, code: code, at: location)
  }
}
