import PipeMachines
import PipeTopology
import PipeWire

/// A node as a search sees it: the configurations that were met, each with a number.
final class ExploredNode {
  enum Kind {
    case machine(ProgramOracle)
    /// A state that never changes.
    case constant
    /// Nothing is asked of it.
    case any
    /// Its program does not answer, so that nothing is known of it: what it would do is left out.
    case silent
  }

  let name: String
  let component: Int
  let kind: Kind
  let opening: OracleOpening?
  let description: MachineDescription?
  /// The events that it takes only together with others, each with the composites through which it does.
  let synchronized: [String: [String]]
  /// The effects that may give something.
  var givers: Set<String> = []
  private let fold: [String: Int]
  private(set) var configurations: [OracleConfiguration] = []
  /// Configurations as they were before they were folded, in the order in which they were met, each with the number of
  /// the one that stands for it.
  private(set) var members: [(number: Int, configuration: OracleConfiguration)] = []
  private var knownMembers: Set<OracleConfiguration> = []
  private var numbers: [OracleConfiguration: Int] = [:]

  init(
    _ name: String, component: Int, _ kind: Kind, opening: OracleOpening?,
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

  /// The number of a configuration, and whether it is new.
  func number(of configuration: OracleConfiguration) -> (number: Int, isNew: Bool) {
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

  /// Notes a configuration that another one stands for, where that is known.
  func note(member configuration: OracleConfiguration) {
    let stripped = self.stripped(configuration)
    let folded = self.folded(stripped)
    guard stripped != folded, let number = numbers[folded] else { return }
    note(stripped, in: number)
  }

  private func note(_ member: OracleConfiguration, in number: Int) {
    if knownMembers.insert(member).inserted { members.append((number, member)) }
  }

  /// A configuration without the effects that give nothing.
  private func stripped(_ configuration: OracleConfiguration) -> OracleConfiguration {
    OracleConfiguration(
      state: configuration.state, effects: configuration.effects.filter(givers.contains))
  }

  /// A configuration whose counters begin anew at their modulus.
  func folded(_ configuration: OracleConfiguration) -> OracleConfiguration {
    guard !fold.isEmpty else { return configuration }
    return OracleConfiguration(
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

  /// The field in which the configurations differ most, or the effects where these do.
  var growingField: String? {
    var values: [String: Set<JSONValue>] = [:]
    var effects: Set<[String]> = []
    for configuration in configurations {
      effects.insert(configuration.effects)
      Self.collect(configuration.state, "", into: &values)
    }
    let field = values.max { ($0.value.count, $1.key) < ($1.value.count, $0.key) }
    if effects.count > (field?.value.count ?? 0) { return "effects under way" }
    return field?.key
  }

  /// The field that `fold` may name to stop the growth; `nil` where it is no integer that the states have directly.
  var foldableField: String? {
    guard let field = growingField?.split(separator: ".").last.map(String.init),
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
