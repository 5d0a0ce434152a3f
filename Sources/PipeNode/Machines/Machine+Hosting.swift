import PipeMachines

extension Machine {
  /// The description with these parameters; one with a problem where they do not decode.
  @export(interface)
  package static func description(parameters: JSONValue) -> MachineDescription {
    do {
      return try describe(Parameters(parameters: parameters))
    } catch {
      return MachineDescription(
        machine: name, problem: "\(error)", parameter: (error as? ParametersError)?.parameter)
    }
  }

  /// The content of a node that hosts the machine.
  public static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine {
    let hosting = try Hosting.of(name, hosting)
    let content = try MachineContent<Self>(
      parameters: Parameters(parameters: hosting.parameters), hosting: hosting)
    return content.hosted()
  }

  /// Throws where the JSON is not a state of the machine.
  @export(interface)
  static func check(state: JSONValue) throws {
    do {
      _ = try EventCodec<State>().decode(state.bytes)
    } catch {
      throw NodeProblem("machine '\(name)': the constant \(error)")
    }
  }
}
