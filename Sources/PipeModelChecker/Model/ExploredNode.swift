import PipeMachines
import PipeTopology
import PipeWire

/// A node as a search sees it: its visited configurations, each with a number.
final class ExploredNode {
  enum Kind {
    case machine(ProgramEvaluator)
    /// A state that never changes.
    case constant
    /// A node under `any`, whose machine is not evaluated.
    case any
    /// A node whose program does not answer: its behavior is unknown, and its steps are left out.
    case silent
  }

  let name: String
  let component: Int
  let kind: Kind
  let opening: EvaluatorOpening?
  let description: MachineDescription?
  /// The events that the node accepts only together with others, each with the composites that
  /// synchronize it.
  let synchronized: [String: [String]]
  /// The effects that may emit an event.
  var emittingEffects: Set<String> = []
  private let fold: [String: Int]
  private(set) var configurations: [EvaluatorConfiguration] = []
  /// The configurations before folding, in the order of their discovery, each with the number of
  /// its representative.
  private(set) var members: [(number: Int, configuration: EvaluatorConfiguration)] = []
  private var recordedMembers: Set<EvaluatorConfiguration> = []
  private var numbers: [EvaluatorConfiguration: Int] = [:]

  init(
    _ name: String, component: Int, _ kind: Kind, opening: EvaluatorOpening?,
    _ description: MachineDescription?, synchronized: [String: [String]], fold: [String: Int]
  ) {
    self.name = name
    self.component = component
    self.kind = kind
    self.opening = opening
    self.description = description
    self.synchronized = synchronized
    self.fold = fold
  }

  func state(_ number: Int) -> JSONValue { configurations[number].state }

  /// Returns the number of a configuration, and whether it is new.
  func number(of configuration: EvaluatorConfiguration) -> (number: Int, isNew: Bool) {
    let stripped = self.stripped(configuration)
    let folded = self.folded(stripped)
    let number: Int
    let isNew: Bool
    if let known = numbers[folded] {
      (number, isNew) = (known, false)
    } else {
      (number, isNew) = (configurations.count, true)
      numbers[folded] = number
      configurations.append(folded)
    }
    if stripped != folded { note(stripped, in: number) }
    return (number, isNew)
  }

  /// Records a configuration as merged into its representative, if that is known.
  func note(member configuration: EvaluatorConfiguration) {
    let stripped = self.stripped(configuration)
    let folded = self.folded(stripped)
    guard stripped != folded, let number = numbers[folded] else { return }
    note(stripped, in: number)
  }

  private func note(_ member: EvaluatorConfiguration, in number: Int) {
    if recordedMembers.insert(member).inserted { members.append((number, member)) }
  }

  /// Returns a configuration without the effects that emit nothing.
  private func stripped(_ configuration: EvaluatorConfiguration) -> EvaluatorConfiguration {
    EvaluatorConfiguration(
      state: configuration.state, effects: configuration.effects.filter(emittingEffects.contains))
  }

  /// Returns a configuration with its folded counters reduced by their modulus.
  func folded(_ configuration: EvaluatorConfiguration) -> EvaluatorConfiguration {
    guard !fold.isEmpty else { return configuration }
    return EvaluatorConfiguration(
      state: folded(configuration.state), effects: configuration.effects)
  }

  private func folded(_ value: JSONValue) -> JSONValue {
    switch value {
    case .object(let members):
      var folded: [String: JSONValue] = [:]
      for (key, member) in members {
        if let modulo = fold[key], let number = member.integer {
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

  /// The field with the most values among the configurations, or the effects if they vary more.
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

  /// The growing field, if `fold` can name it; `nil` if it is not an integer field of the states
  /// themselves.
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
