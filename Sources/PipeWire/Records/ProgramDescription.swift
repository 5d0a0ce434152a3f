import PipeMachines
import PipeSystem

/// A program's description of the machines, monitors and composite states that it registers.
public struct ProgramDescription: Codable, Hashable, Sendable {
  /// The executable's name.
  public var program: String
  /// The version of the wire protocol that the program uses.
  public var protocolVersion: Int
  /// The machines that the program registers.
  public var machines: [MachineDescription]
  /// The names of the monitors that the program registers.
  public var monitors: [String]
  /// The composite states that the program registers.
  public var composites: [CompositeStateDescription]
  /// Whether the program's nodes can be carrier nodes of embedded coordinators. `false` for
  /// programs that do not report this, such as programs in other languages.
  public var embedsCoordinators: Bool
  /// Whether the program can try to read journals before its nodes start. `false` for programs that
  /// do not report this.
  public var readsJournals: Bool

  /// Makes a description.
  public init(
    program: String, protocolVersion: Int, machines: [MachineDescription], monitors: [String] = [],
    composites: [CompositeStateDescription] = [], embedsCoordinators: Bool = true,
    readsJournals: Bool = true
  ) {
    self.readsJournals = readsJournals
    self.embedsCoordinators = embedsCoordinators
    self.program = program
    self.protocolVersion = protocolVersion
    self.machines = machines
    self.monitors = monitors
    self.composites = composites
  }

  /// Returns the machine with this registered name; `nil` if there is none.
  public func machine(_ name: String) -> MachineDescription? {
    machines.first { $0.machine == name }
  }

  /// Returns the composite state with this registered name; `nil` if there is none.
  public func composite(_ name: String) -> CompositeStateDescription? {
    composites.first { $0.name == name }
  }
}

extension ProgramDescription {
  /// Decodes a description. The keys `composites`, `embedsCoordinators` and `readsJournals` are
  /// optional.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    program = try container.decode(String.self, forKey: .program)
    protocolVersion = try container.decode(Int.self, forKey: .protocolVersion)
    machines = try container.decode([MachineDescription].self, forKey: .machines)
    monitors = try container.decode([String].self, forKey: .monitors)
    composites =
      try container.decodeIfPresent([CompositeStateDescription].self, forKey: .composites) ?? []
    embedsCoordinators =
      try container.decodeIfPresent(Bool.self, forKey: .embedsCoordinators) ?? false
    readsJournals = try container.decodeIfPresent(Bool.self, forKey: .readsJournals) ?? false
  }
}

/// A request to a program to describe one of its machines, created with the given parameters.
package struct DescriptionRequest: Hashable, Sendable {
  package var machine: String
  package var parameters: JSONValue

  package init(machine: String, parameters: JSONValue) {
    self.machine = machine
    self.parameters = parameters
  }

  /// Returns the description of the command `PROGRAM describe`.
  package static func description(of program: String) -> CommandDescription {
    CommandDescription(
      "describe", of: program, "Describes the program's machines as JSON",
      options: [
        Option(
          "machine", value: .text("MACHINE"), repeats: true,
          "Describes only the machine with this registered name"),
        Option(
          "parameters", value: .text("JSON"), repeats: true,
          "The parameters of the preceding machine. Default: {}"),
      ])
  }

  /// Returns the requested machines, each with its parameters.
  package static func requests(
    _ arguments: ParsedArguments, of program: String
  ) throws(UsageError) -> [DescriptionRequest] {
    var requests: [DescriptionRequest] = []
    for (name, value) in arguments.options.map({ ($0.name, $0.value) }) {
      if name == "machine" {
        requests.append(DescriptionRequest(machine: value, parameters: [:]))
      } else if requests.isEmpty {
        throw .missingOption("--machine", of: description(of: program).command)
      } else {
        requests[requests.count - 1].parameters = try JSONValue(
          argument: value, of: "--parameters")
      }
    }
    return requests
  }

  /// The arguments after `PROGRAM describe`.
  package var arguments: [String] { ["--machine", machine, "--parameters", parameters.text] }
}

/// A program's description of a registered composite state.
public struct CompositeStateDescription: Codable, Hashable, Sendable {
  /// The registered name.
  public var name: String
  /// The cases of the composite state.
  public var states: [CaseDescription]
  /// The types of the components' states, in order.
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
  /// The description of the composite state.
  package static var description: CompositeStateDescription {
    CompositeStateDescription(
      name: name, states: EnumCases<Self>.descriptions, components: projection.components)
  }
}
