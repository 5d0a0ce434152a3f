import PipeJournal
import PipeMachines
import PipeWire

/// The machine of a keyed node with its runtime, checked for use with instances.
struct KeyedMachine<Hosted: Machine> {
  typealias Parts = InstanceEngines<Hosted>.Parts

  /// The machine and its runtime without the parameter that is the key.
  let shared: Parts
  let description: MachineDescription
  let meter: StateMeter<Hosted.State>
  /// The tags of the states in which an instance ends.
  let finalTags: Set<Int>
  /// The parameters of instances; `nil` if all instances share the machine.
  private let instanceParameters: InstanceParameters<Hosted.Parameters>?
  private let ports: Ports

  /// - Throws: ``NodeSetupError`` if a node with a `key` cannot run the machine.
  @export(interface)
  init(
    _ parameters: Hosted.Parameters, _ instances: NodeArguments.Instances, _ ports: Ports,
    hosting: HostingContext
  ) throws {
    self.ports = ports
    finalTags = try Self.finalTags(instances.finalStates)
    meter = StateMeter<Hosted.State>(
      isSynthesized: Hosted.State._isSynthesizedCodable,
      isExact: hosting.journal?.marker.measuresEachStep == true)
    let machine = Hosted.stateMachine(parameters).refusing(by: meter).ending(in: finalTags)
    let runtime = Hosted.runtime(parameters, ports)
    description = try Hosted.describe(machine: machine, runtime: runtime, ports: ports)
    if let timer = description.timers?.first(where: { instances.finalStates.contains($0.state) }) {
      throw NodeSetupError(
        "machine '\(Hosted.name)' has a timer in state '\(timer.state)', which is listed in 'final': "
          + "an instance that has ended takes no step; remove the 'After' or the state in 'final'")
    }
    if let problem = machine.problem(withInitial: description.initial) {
      throw NodeSetupError(problem)
    }
    if let problem = description.keyProblem { throw NodeSetupError(problem) }
    shared = (machine, runtime)
    instanceParameters = InstanceParameters<Hosted.Parameters>(
      Hosted.migrated(parameters: hosting.parameters), key: instances.key)
  }

  /// Returns the tags of the final states.
  static func finalTags(_ labels: [String]) throws -> Set<Int> {
    if labels.isEmpty { return [] }
    let names = EnumCases<Hosted.State>.names
    return Set(
      try labels.map { label in
        guard let tag = names.firstIndex(of: label) else {
          throw NodeSetupError(
            "machine '\(Hosted.name)' has no state '\(label)', listed in 'final'")
        }
        return tag
      })
  }

  /// A function that creates the machine of the instance with the given key. The key is a parameter
  /// of this machine. The function returns `nil` if the parameter does not accept the key. The
  /// property is `nil` if all instances share the machine.
  var instanceParts: ((InstanceKey) -> Parts?)? {
    instanceParameters.map { [ports, meter, finalTags] instanceParameters in
      { key in
        instanceParameters.parameters(of: key).map { parameters in
          (
            Hosted.stateMachine(parameters).refusing(by: meter).ending(in: finalTags),
            Hosted.runtime(parameters, ports)
          )
        }
      }
    }
  }
}
