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

  /// Makes a description.
  public init(
    program: String, protocolVersion: Int, machines: [MachineDescription], monitors: [String] = []
  ) {
    self.program = program
    self.protocolVersion = protocolVersion
    self.machines = machines
    self.monitors = monitors
  }

  /// The machine of a registered name, or `nil`.
  public func machine(_ name: String) -> MachineDescription? {
    machines.first { $0.machine == name }
  }
}
