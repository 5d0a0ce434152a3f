import PipeSupport

/// A machine that a topology can run as a node, with its types, behaviour, effects and pipes.
public protocol Machine: _Hostable {
  /// A state of the machine.
  associatedtype State: MachineState
  /// An event that the machine accepts.
  associatedtype Event: MachineEvent
  /// A request of the machine to its runtime; `Never` if the machine has none.
  associatedtype Output: MachineOutput = Never
  /// The parameters that a topology file can set.
  associatedtype Parameters: MachineParameters = NoParameters

  /// The name by which a topology file refers to the machine. Default: the type's own name.
  static var name: String { get }

  /// Returns the description of the machine.
  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output>

  /// Returns the description of the machine's effects and pipes. Default: none.
  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Output>
}

extension Machine {
  /// The type's own name, without its module.
  public static var name: String { TypeName.own(Self.self) }

  /// Returns a runtime with neither effects nor pipes.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> { Runtime() }
}

extension Machine {
  /// Returns the description of the machine before it runs.
  @export(interface)
  package static func describe(_ parameters: Parameters) throws -> MachineDescription {
    let ports = Ports()
    return try describe(
      machine: stateMachine(parameters), runtime: runtime(parameters, ports), ports: ports)
  }

  /// Returns the description of a machine that was made.
  @export(interface)
  package static func describe(
    machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>,
    ports: Ports
  ) throws -> MachineDescription {
    let unnamed =
      runtime.unnamedPipes > 0
      ? ["\(runtime.unnamedPipes) pipes of the machine have no name; use 'ports.pipe(NAME)'"]
      : []
    let initial = try JSONValue(encoding: machine.initial)
    var description = MachineDescription(
      machine: name, initial: initial, states: machine.states,
      events: machine.events, alphabet: machine.alphabet, outputs: machine.outputs,
      outPorts: runtime.outPorts, inPorts: runtime.inPorts,
      error: machine.problem ?? machine.problem(withInitial: initial)
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

/// The services of a node for the machine that it hosts. The runtime knows the concrete type.
public protocol _Hosting {}

/// A machine as a node holds it. The runtime knows the concrete type.
public protocol _HostedMachine {}

/// A type that a node can host. Do not conform to it directly.
public protocol _Hostable: SendableMetatype {
  /// Makes the hosted machine. The runtime provides it for every machine; do not implement it.
  ///
  /// It is a protocol requirement so that its default is compiled for the machine's own types.
  static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine
}

extension _Hostable {
  // If a file imports the runtime, the runtime's default for `Machine` takes precedence over this
  // one.
  /// Throws an error: a machine whose file imports only the portable part cannot be hosted.
  public static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine {
    throw NotHostableError(machine: "\(Self.self)")
  }
}

/// A machine should run as a node, but its file imports only the portable part.
struct NotHostableError: Error, CustomStringConvertible {
  let machine: String

  var description: String {
    "machine '\(machine)' cannot run as a node: its file imports only PipeMachines; import "
      + "PipeRuntime in the file that declares the conformance to Machine"
  }
}
