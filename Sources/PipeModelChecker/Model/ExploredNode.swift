import PipeMachines
import PipeTopology
import PipeWire

/// A node in a search. Each visited configuration of the node has a number.
final class ExploredNode {
  enum Kind {
    case machine(ProgramEvaluator)
    /// A state that never changes.
    case constant
    /// A node listed under `any`, whose machine is not evaluated.
    case unevaluated
    /// A node whose program does not answer. The node's behavior is unknown, so the search omits
    /// its steps.
    case unanswering
  }

  /// The name of the node, or of the instance, such as `orders[a]`.
  let name: String
  /// The name of the node in the topology file.
  let baseName: String
  /// The key, if this is an instance of a node with a `key`.
  let key: ExploredKeys.Key?
  /// The names of the states in which an instance ends.
  let finalStates: Set<String>
  let component: Int
  let kind: Kind
  let opening: EvaluatorOpening?
  let description: MachineDescription?
  /// The events that the node accepts only together with other nodes, each with the composites that
  /// synchronize the event.
  let compositesByEvent: [String: [String]]
  /// The names of the effects that may emit an event.
  var emittingEffects: Set<String> = []
  /// The durations of the timers that the search has fired, such as `30 s`, by configuration.
  var timerDurations: [Int: String] = [:]
  private let foldModuli: [String: Int]
  private(set) var configurations: [EvaluatorConfiguration] = []
  /// The configurations that a fold changes, in the order of discovery. Each has the number of the
  /// folded configuration, which is called its representative.
  private(set) var mergedConfigurations: [(number: Int, configuration: EvaluatorConfiguration)] = []
  private var recordedMembers: Set<EvaluatorConfiguration> = []
  private var numbersByConfiguration: [EvaluatorConfiguration: Int] = [:]

  init(
    _ specification: NodeSpecification, _ key: ExploredKeys.Key?, component: Int, _ kind: Kind,
    opening: EvaluatorOpening?,
    _ description: MachineDescription?, compositesByEvent: [String: [String]], fold: [String: Int]
  ) {
    baseName = specification.name
    name = key.map { InstanceName(node: specification.name, key: $0.text).description } ?? baseName
    self.key = key
    finalStates = key == nil ? [] : Set(specification.finalStates)
    self.component = component
    self.kind = kind
    self.opening = opening
    self.description = description
    self.compositesByEvent = compositesByEvent
    self.foldModuli = fold
  }

  func state(_ number: Int) -> JSONValue { configurations[number].state }

  /// The configuration before the first step of the topology; `nil` if it is unknown.
  var initialConfiguration: EvaluatorConfiguration? {
    key == nil ? opening?.configuration : .notCreated
  }

  /// Returns whether the node exists in a configuration. `false` only for an instance that is not
  /// created yet.
  func isCreated(_ number: Int) -> Bool { key == nil || configurations[number] != .notCreated }

  /// Returns whether an instance has ended, or is not created yet.
  func isAbsent(_ number: Int) -> Bool {
    !isCreated(number) || finalStates.contains(configurations[number].state.caseName ?? "")
  }

  /// Returns the number of a configuration, and whether the configuration is new. Adds a new
  /// configuration.
  func number(of configuration: EvaluatorConfiguration) -> (number: Int, isNew: Bool) {
    let stripped = self.stripped(configuration)
    let folded = self.folded(stripped)
    let number: Int
    let isNew: Bool
    if let known = numbersByConfiguration[folded] {
      (number, isNew) = (known, false)
    } else {
      (number, isNew) = (configurations.count, true)
      numbersByConfiguration[folded] = number
      configurations.append(folded)
    }
    if stripped != folded { record(stripped, in: number) }
    return (number, isNew)
  }

  /// Records a configuration that a fold merges with its representative, the folded configuration.
  /// Does nothing if the representative is not known.
  func record(member configuration: EvaluatorConfiguration) {
    let stripped = self.stripped(configuration)
    let folded = self.folded(stripped)
    guard stripped != folded, let number = numbersByConfiguration[folded] else { return }
    record(stripped, in: number)
  }

  private func record(_ member: EvaluatorConfiguration, in number: Int) {
    if recordedMembers.insert(member).inserted { mergedConfigurations.append((number, member)) }
  }

  /// Returns a configuration without the effects that emit no events.
  private func stripped(_ configuration: EvaluatorConfiguration) -> EvaluatorConfiguration {
    EvaluatorConfiguration(
      state: configuration.state, effects: configuration.effects.filter(emittingEffects.contains))
  }

  /// Returns a configuration in which each folded field is reduced by its modulus.
  func folded(_ configuration: EvaluatorConfiguration) -> EvaluatorConfiguration {
    guard !foldModuli.isEmpty else { return configuration }
    return EvaluatorConfiguration(
      state: folded(configuration.state), effects: configuration.effects)
  }

  private func folded(_ value: JSONValue) -> JSONValue {
    switch value {
    case .object(let members):
      var folded: [String: JSONValue] = [:]
      for (key, member) in members {
        if let modulo = foldModuli[key], let number = member.integer {
          folded[key] = .integer((number % Int64(modulo) + Int64(modulo)) % Int64(modulo))
        } else {
          folded[key] = self.folded(member)
        }
      }
      return .object(folded)
    case .array(let elements): return .array(elements.map(folded))
    case .null, .bool, .integer, .number, .string: return value
    }
  }

  /// The name of the field with the most different values in the visited configurations; `running
  /// effects` if the effects vary more than any field.
  var fieldWithMostValues: String? {
    var values: [String: Set<JSONValue>] = [:]
    var effects: Set<[String]> = []
    for configuration in configurations {
      effects.insert(configuration.effects)
      Self.collect(configuration.state, "", into: &values)
    }
    let field = values.max { ($0.value.count, $1.key) < ($1.value.count, $0.key) }
    if effects.count > (field?.value.count ?? 0) { return "running effects" }
    return field?.key
  }

  /// The name of ``fieldWithMostValues`` if the field can be folded; `nil` if the field is not an
  /// integer field of a state.
  var foldableField: String? {
    guard let field = fieldWithMostValues?.split(separator: ".").last.map(String.init),
      let description
    else { return nil }
    let found = (description.stateFields ?? description.states.flatMap(\.fields))
      .filter { $0.name == field }
    let areIntegers = found.allSatisfy {
      if case .integer = SwiftType($0.type) { true } else { false }
    }
    return areIntegers && !found.isEmpty ? field : nil
  }

  private static func collect(
    _ value: JSONValue, _ path: String, into values: inout [String: Set<JSONValue>]
  ) {
    guard case .object(let members) = value else {
      if !path.isEmpty { values[path, default: []].insert(value) }
      return
    }
    for (key, member) in members {
      collect(member, path.isEmpty ? key : "\(path).\(key)", into: &values)
    }
  }
}
