import PipeMachines

/// What a node program tells of a composite state that it registers.
public struct CompositeStateDescription: Codable, Hashable, Sendable {
  /// The registered name.
  public var name: String
  /// The cases that are shown.
  public var states: [CaseDescription]
  /// The states that it is made of, one of each component, in order.
  public var components: [StateTypeDescription]

  /// Makes a description.
  public init(
    name: String, states: [CaseDescription], components: [StateTypeDescription]
  ) {
    self.name = name
    self.states = states
    self.components = components
  }
}

extension CompositeState {
  /// What the composite state tells of itself.
  package static var description: CompositeStateDescription {
    CompositeStateDescription(
      name: name, states: EnumCases<Self>.descriptions, components: projection.components)
  }
}
