import PipeSupport

/// A machine that a topology can run as a node: its types, its behaviour, its effects and pipes.
public protocol Machine: _Hostable {
  /// The states.
  associatedtype State: MachineState
  /// The events it takes.
  associatedtype Event: MachineEvent
  /// What it asks its runtime to do; `Never` where it asks for nothing.
  associatedtype Output: MachineOutput = Never
  /// What a topology file can set.
  associatedtype Parameters: MachineParameters = NoParameters

  /// The name that a topology file refers to it by. Default: the type's own name.
  static var name: String { get }

  /// Describes the machine.
  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output>

  /// Describes its effects and pipes. Default: none.
  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Output>
}

extension Machine {
  /// The type's own name, without its module.
  public static var name: String { TypeName.own(Self.self) }

  /// Neither effects nor pipes.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> { Runtime() }
}

extension Machine {
  /// What the machine tells of itself before it runs.
  @export(interface)
  package static func describe(_ parameters: Parameters) throws -> MachineDescription {
    let ports = Ports()
    return try describe(
      machine: stateMachine(parameters), runtime: runtime(parameters, ports), ports: ports)
  }

  /// What a machine that was made tells of itself.
  @export(interface)
  package static func describe(
    machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>,
    ports: Ports
  ) throws -> MachineDescription {
    let unnamed =
      runtime.unnamedPipes > 0
      ? ["\(runtime.unnamedPipes) of its pipes have no name; take them from 'ports.pipe(NAME)'"]
      : []
    let initial = try JSONValue(encoding: machine.initial)
    var description = MachineDescription(
      machine: name, initial: initial, states: machine.states,
      events: machine.events, alphabet: machine.alphabet, outputs: machine.outputs,
      outPorts: runtime.outPorts, inPorts: runtime.inPorts,
      problem: machine.problem ?? machine.problem(withInitial: initial)
        ?? (runtime.problems + ports.problems + unnamed).first,
      stateFields: machine.stateFields)
    let asynchronous = machine.asynchronousEvents
    func names(_ asynchrony: StateMachine<State, Event, Output>.Asynchrony) -> [String]? {
      let names = machine.alphabet.filter { asynchronous[$0] == asynchrony }
      return names.isEmpty ? nil : names
    }
    description.effects = runtime.declaredEffects
    description.unmappedOutputs = runtime.unmappedOutputs
    description.asynchronous = names(.all)
    description.partlyAsynchronous = names(.some)
    let limits = machine.selfContainedEvents.filter { machine.alphabet.contains($0.key) }
    description.selfContained = limits.isEmpty ? nil : limits.mapValues(\.wholeMilliseconds)
    return description
  }
}

/// What a node gives to the machine that it hosts; its runtime knows more of it.
public protocol _Hosting {}

/// A machine as a node holds it; its runtime knows more of it.
public protocol _HostedMachine {}

/// What a node can make of a machine; do not write it.
public protocol _Hostable: SendableMetatype {
  /// Makes what a node hosts. Provided for every machine by the runtime; do not write one.
  ///
  /// A requirement, so that its default is compiled for the machine's own types.
  static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine
}

extension _Hostable {
  // The runtime's own default, of `Machine`, comes before this one where a file imports the runtime.
  /// Refuses: nobody can host a machine of which the file imports the portable part alone.
  public static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine {
    throw NotHostableError(machine: "\(Self.self)")
  }
}

/// A machine is to be a node, and its file imports the portable part alone.
struct NotHostableError: Error, CustomStringConvertible {
  let machine: String

  var description: String {
    "machine '\(machine)' is compiled with PipeMachines alone, which has no nodes; import PipeRuntime in "
      + "the file that declares it a Machine"
  }
}
