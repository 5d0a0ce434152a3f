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
  /// Of each one of those that were folded into it, as it was before.
  private(set) var unfolded: [Int: OracleConfiguration] = [:]
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
    let stripped = OracleConfiguration(
      state: configuration.state, effects: configuration.effects.filter(givers.contains))
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
    if stripped != folded, unfolded[number] == nil { unfolded[number] = stripped }
    return (number, isNew)
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
