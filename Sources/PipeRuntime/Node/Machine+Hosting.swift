extension Machine {
  /// The description with these parameters; one with a problem where they do not decode.
  static func description(parameters: JSONValue) -> MachineDescription {
    do {
      return try describe(Parameters(parameters: parameters))
    } catch {
      return MachineDescription(machine: name, problem: "\(error)")
    }
  }

  /// The content of a node that hosts the machine.
  static func host(
    _ parameters: JSONValue, log: NodeLog, loop: LoopHandle
  ) throws -> any NodeContent {
    try MachineContent<Self>(parameters: Parameters(parameters: parameters), log: log, loop: loop)
  }

  /// Throws where the JSON is not a state of the machine.
  static func check(state: JSONValue) throws {
    do {
      _ = try EventCodec<State>().decode(state.bytes)
    } catch {
      throw NodeProblem("machine '\(name)': the constant \(error)")
    }
  }
}
