import PipeMachines

/// What a node program tells of itself: what it can host.
public struct ProgramDescription: Codable, Hashable, Sendable {
  /// The executable's name.
  public var program: String
  /// The version of the wire protocol that it speaks.
  public var protocolVersion: Int
  /// The machines that it registers.
  public var machines: [MachineDescription]
  /// The names of the monitors that it registers.
  public var monitors: [String]
  /// The composite states that it registers.
  public var composites: [CompositeStateDescription]
  /// Whether its nodes let others live in their processes. Those of other languages, and of older builds,
  /// do not say so.
  public var takesLodgers: Bool

  /// Makes a description.
  public init(
    program: String, protocolVersion: Int, machines: [MachineDescription], monitors: [String] = [],
    composites: [CompositeStateDescription] = [], takesLodgers: Bool = true
  ) {
    self.takesLodgers = takesLodgers
    self.program = program
    self.protocolVersion = protocolVersion
    self.machines = machines
    self.monitors = monitors
    self.composites = composites
  }

  /// The machine of a registered name, or `nil`.
  public func machine(_ name: String) -> MachineDescription? {
    machines.first { $0.machine == name }
  }

  /// The composite state of a registered name, or `nil`.
  public func composite(_ name: String) -> CompositeStateDescription? {
    composites.first { $0.name == name }
  }
}

extension ProgramDescription {
  /// Reads a description; one of a program without composite states may leave them out.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    program = try container.decode(String.self, forKey: .program)
    protocolVersion = try container.decode(Int.self, forKey: .protocolVersion)
    machines = try container.decode([MachineDescription].self, forKey: .machines)
    monitors = try container.decode([String].self, forKey: .monitors)
    composites =
      try container.decodeIfPresent([CompositeStateDescription].self, forKey: .composites) ?? []
    takesLodgers = try container.decodeIfPresent(Bool.self, forKey: .takesLodgers) ?? false
  }
}
