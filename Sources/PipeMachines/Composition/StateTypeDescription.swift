import PipeSupport

/// A state type: its name and its cases.
public struct StateTypeDescription: Codable, Hashable, Sendable {
  /// The Swift name without its module, such as `LiftDoor.State`.
  public var type: String
  /// The cases.
  public var states: [CaseDescription]

  /// Makes a description.
  public init(type: String, states: [CaseDescription]) {
    self.type = type
    self.states = states
  }

  init<State: MachineState>(_ type: State.Type) {
    self.init(type: TypeName.of(type), states: EnumCases<State>.descriptions)
  }
}
