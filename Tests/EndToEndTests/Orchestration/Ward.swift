import Testing

/// A topology that tests change while it runs, with the expected plan.
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
    ~ changed  restarts: its machine, parameters or durability were changed
    + added    starts
    - gone     stops

    """
}

extension DetachedTopology {
  /// Applies the topology's file.
  @discardableResult
  func apply(
    _ options: String..., code: Int32 = 0, at location: SourceLocation = #_sourceLocation
  ) async throws -> CommandLineTool.Result {
    try await run(["apply", name + ".yaml"] + options, code: code, at: location)
  }
}
