import PipeSupport

/// A machine that a topology can run as a node. The type declares the states, events and outputs,
/// the behaviour, the effects and the pipes.
public protocol Machine: _Hostable {
  /// A state of the machine.
  associatedtype State: MachineState
  /// An event that the machine accepts.
  associatedtype Event: MachineEvent
  /// A request of the machine to its runtime; `Never` if the machine has none.
  associatedtype Output: MachineOutput = Never
  /// The parameters that a topology file can set.
  associatedtype Parameters: MachineParameters = NoParameters

  /// The name by which a topology file refers to the machine. Default: the name of the type.
  static var name: String { get }

  /// The schema version: a number that identifies the current form of the machine's states, events
  /// and parameters. If the machine cannot read the values that an earlier version of its program
  /// has stored, increase the number by 1 and add a migration. Default: 1.
  static var schema: Int { get }

  /// The migrations of values that were stored with earlier schema versions. Default: none.
  static var migrations: [Migration] { get }

  /// Returns the state machine, which defines the machine's behaviour.
  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output>

  /// Returns the runtime, which defines the machine's effects and pipes. Default: no effects, no
  /// pipes.
  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Output>
}

extension Machine {
  /// The name of the type, without its module.
  public static var name: String { TypeName.unqualified(Self.self) }

  /// The default schema version: 1.
  public static var schema: Int { 1 }

  /// No migrations.
  public static var migrations: [Migration] { [] }

  /// Returns a runtime with neither effects nor pipes.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> { Runtime() }
}

extension Machine {
  /// Returns the machine's description of itself, before the machine runs.
  @export(interface)
  package static func describe(_ parameters: Parameters) throws -> MachineDescription {
    let ports = Ports()
    return try describe(
      machine: stateMachine(parameters), runtime: runtime(parameters, ports), ports: ports)
  }

  /// Makes the description of a machine from its state machine, runtime and ports.
  @export(interface)
  package static func describe(
    machine: StateMachine<State, Event, Output>, runtime: Runtime<State, Event, Output>,
    ports: Ports
  ) throws -> MachineDescription {
    let unnamed =
      runtime.unnamedPipeCount > 0
      ? ["\(runtime.unnamedPipeCount) pipes of the machine have no name; use 'ports.pipe(NAME)'"]
      : []
    let initial = try JSONValue(encoding: machine.initial)
    let timers = machine.timerDescriptions()
    var description = MachineDescription(
      machine: name, initial: initial, states: machine.states,
      events: machine.events, alphabet: machine.alphabet, outputs: machine.outputs,
      outPorts: runtime.outPorts, inPorts: runtime.inPorts,
      error: machine.problem ?? machine.problem(withInitial: initial) ?? timers.problem
        ?? MigrationPlan(self).problem
        ?? (runtime.problems + ports.problems + unnamed).first,
      stateFields: machine.stateFields)
    let asynchronous = machine.asynchronousEvents
    func names(_ asynchrony: StateMachine<State, Event, Output>.Asynchrony) -> [String]? {
      let names = machine.alphabet.filter { asynchronous[$0] == asynchrony }
      return names.isEmpty ? nil : names
    }
    description.schema = schema == 1 ? nil : schema
    description.timers = timers.all.isEmpty ? nil : timers.all
    description.effects = runtime.declaredEffects
    description.unmappedOutputs = runtime.unmappedOutputs
    description.runsModel = runtime.hasAnnouncingFeedback ? true : nil
    description.asynchronous = names(.all)
    description.partlyAsynchronous = names(.some)
    let limits = machine.timeLimitsByEvent.filter { machine.alphabet.contains($0.key) }
    let ignored = machine.ignoredEvents
    description.ignored = ignored.isEmpty ? nil : ignored
    description.selfContained = limits.isEmpty ? nil : limits.mapValues(\.wholeMilliseconds)
    return description
  }
}

/// The services that a node provides to the machine that it hosts. Only the module PipeNode knows
/// the concrete type.
public protocol _Hosting {}

/// A machine in the form in which a node hosts it. Only the module PipeNode knows the concrete
/// type.
public protocol _HostedMachine {}

/// A type that a node can host. Do not conform to this protocol directly.
public protocol _Hostable: SendableMetatype {
  /// Makes the hosted machine. The module PipeNode implements this function for every machine; do
  /// not implement it.
  ///
  /// This is a protocol requirement so that the compiler specializes the default implementation for
  /// the machine's own types.
  static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine
}

extension _Hostable {
  // If a file imports PipeRuntime, which includes PipeNode, PipeNode's default implementation takes
  // precedence over this implementation.
  /// Throws an error. A machine cannot be hosted if its file imports only PipeMachines.
  public static func _host(_ hosting: any _Hosting) throws -> any _HostedMachine {
    throw NotHostableError(machine: "\(Self.self)")
  }
}

/// An error for a machine that a node cannot run, because its file imports only PipeMachines.
struct NotHostableError: Error, CustomStringConvertible {
  let machine: String

  var description: String {
    "machine '\(machine)' cannot run as a node: its file imports only PipeMachines; import "
      + "PipeRuntime in the file that declares the conformance to Machine"
  }
}
