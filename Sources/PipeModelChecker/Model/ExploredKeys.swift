import PipeMachines
import PipeSupervision
import PipeTopology
import PipeWire

/// The keys with which a search explores the instances of nodes with a `key`.
///
/// Most keys are examples, such as `a` and `b`. The search treats example keys as interchangeable:
/// a property about example keys applies to all keys. A key in the rule of a pipe, or in the events
/// or values of the `explore` section, is not interchangeable with any other key.
struct ExploredKeys {
  struct Key: Hashable {
    /// The value of the key's field in an event: a string or an integer.
    let value: JSONValue
    /// Whether the file names the key, so that the key is not interchangeable.
    let isNamed: Bool

    /// The key as in the name of an instance.
    var text: String { value.keyText }
  }

  /// The keys of each node with a `key`, by the node's name.
  private(set) var keysByNode: [String: [Key]] = [:]
  /// The names of the fields that carry keys, in events and in states.
  private(set) var fieldNames: Set<String> = []
  /// The name of the event field that contains the key, by the name of the node or composite.
  private var keyFields: [String: String] = [:]
  /// The nodes of each composite with a `key`, by the composite's name.
  private var nodesByComposite: [String: [String]] = [:]

  /// The maximum number of renamings, including the identity.
  private static let maximumRenamingCount = 240
  /// The maximum number of keys that a renaming changes in a group of interchangeable keys.
  private static let maximumRenamedKeyCount = 5

  init() {}

  /// - Parameter openings: The initial steps of nodes with a `key`, as far as programs can compute
  ///   them without a key.
  init(_ loaded: LoadedTopology, _ section: ExploreSection, openings: [String: EvaluatorOpening]) {
    let keyed = loaded.topology.nodes.filter { $0.key != nil }
    keyFields = Dictionary(uniqueKeysWithValues: keyed.map { ($0.name, $0.key ?? "") })
    for plan in loaded.conflictClasses.flatMap(\.composites) where plan.key != nil {
      keyFields[plan.name] = plan.key
      nodesByComposite[plan.name] = plan.nodes
    }
    fieldNames = Set(keyFields.values)
    for pipe in loaded.pipes {
      for (field, value) in pipe.eventTemplate?.caseMembers ?? [:] where value == "$key" {
        fieldNames.insert(field)
      }
    }
    let named = keyed.map { node in
      var names: [String] = []
      for owner in owners(sharingKeysWith: node.name) {
        for key in Self.namedKeys(of: owner, node.key ?? "", loaded, section)
        where !names.contains(key) { names.append(key) }
      }
      return names
    }
    let reserved = Set(named.joined())
    for (node, named) in zip(keyed, named) {
      let counts = owners(sharingKeysWith: node.name).compactMap {
        section.instanceCountsByNode[$0]
      }
      let samples = Self.samples(
        of: node, count: counts.max() ?? ExploreSection.defaultKeyCount,
        loaded.descriptions[node.name], openings[node.name], besides: reserved)
      let isInteger = samples.contains { $0.integer != nil }
      keysByNode[node.name] =
        samples.map { Key(value: $0, isNamed: false) }
        + named.map { text in
          let integer = isInteger ? Int64(text).map(JSONValue.integer) : nil
          return Key(value: integer ?? .string(text), isNamed: true)
        }
    }
  }

  /// Returns the names of all nodes and composites that have the same keys as a node, including the
  /// node itself, in sorted order. The nodes of a composite with a `key` have the same keys.
  private func owners(sharingKeysWith node: String) -> [String] {
    var owners: Set = [node]
    var count = 0
    while count < owners.count {
      count = owners.count
      for (composite, nodes) in nodesByComposite where !owners.isDisjoint(with: nodes) {
        owners.formUnion(nodes + [composite])
      }
    }
    return owners.sorted()
  }

  /// Returns the keys of a node or a composite. All nodes of a composite have the same keys.
  func keys(of owner: String) -> [Key] {
    keysByNode[nodesByComposite[owner]?.first ?? owner] ?? []
  }

  /// Returns the name of the event field that contains the key; `nil` if the node or the composite
  /// has no `key`.
  func field(of owner: String) -> String? { keyFields[owner] }

  /// Returns the key in an event; `nil` if the node or the composite has no `key`.
  func key(of event: JSONValue, at owner: String) -> Result<InstanceKey, InstanceKeyError>? {
    guard let field = keyFields[owner] else { return nil }
    var reader = InstanceKeyReader(field: field)
    return Result { () throws(InstanceKeyError) in try reader.key(ofEvent: event.bytes) }
  }

  /// Returns the keys that the file names for a node or a composite: in the rules of pipes, and in
  /// the events and values of the `explore` section.
  private static func namedKeys(
    of owner: String, _ field: String, _ loaded: LoadedTopology, _ section: ExploreSection
  ) -> [String] {
    var foundKeys: [String] = []
    func add(_ value: JSONValue?) {
      guard let value else { return }
      let text = value.keyText
      if !text.isEmpty, !text.hasPrefix("$"), !foundKeys.contains(text) { foundKeys.append(text) }
    }
    func add(_ members: [String: JSONValue]) { add(members[field] ?? members["_0"]?[field]) }
    for pipe in loaded.pipes where pipe.receiver == owner {
      add(pipe.eventTemplate?.caseMembers ?? [:])
    }
    let declared =
      (section.fromOutside?[owner] ?? []).map(\.fields)
      + (section.values[owner] ?? [:]).sorted { $0.key < $1.key }.map(\.value)
    for sets in declared {
      for value in sets[field]?.values ?? [] { add(value) }
      for value in sets["_0"]?.values ?? [] { add(value[field]) }
    }
    return foundKeys
  }

  /// Returns example keys of a type that the node's events accept.
  private static func samples(
    of node: NodeSpecification, count: Int, _ description: MachineDescription?,
    _ opening: EvaluatorOpening?, besides reserved: Set<String>
  ) -> [JSONValue] {
    let field = node.key ?? ""
    let integers = (1...).lazy.map { JSONValue.integer(Int64($0)) }
      .filter { !reserved.contains("\($0.integer ?? 0)") }.prefix(count)
    let letters = (97...).lazy.map { JSONValue.string(String(UnicodeScalar(UInt8($0)))) }
      .filter { !reserved.contains($0.string ?? "") }.prefix(count)
    for type in (description?.events ?? []).flatMap(\.fields).filter({ $0.name == field }) {
      switch SwiftType(type.type) {
      case .integer: return Array(integers)
      case .string: return Array(letters)
      default: break
      }
    }
    // The type of the key is still unknown: the key has another type than integer or string, or is
    // a field of an associated value without a label.
    for (_, fields) in (opening?.events ?? [:]).sorted(by: { $0.key < $1.key }) {
      if let own = fields.first(where: { $0.name == field }), own.isComplete {
        return Array(
          own.values.filter { $0.string != nil && !reserved.contains($0.string ?? "") }
            .prefix(count))
      }
      let nested = fields.first.flatMap { $0.name == "_0" ? $0.values.first?[field] : nil }
      if nested?.integer != nil { return Array(integers) }
    }
    return Array(letters)
  }

  // MARK: Renamings of keys

  /// A renaming of keys. Nothing in the file distinguishes the renamed keys.
  struct Renaming: Hashable {
    fileprivate(set) var images: [JSONValue: JSONValue] = [:]
    fileprivate var renamedFields: Set<String> = []

    /// Returns a copy of an event or a state with renamed keys. Only fields that carry keys are
    /// changed.
    func apply(_ value: JSONValue) -> JSONValue {
      switch value {
      case .object(let members):
        var renamed: [String: JSONValue] = [:]
        for (name, member) in members {
          renamed[name] =
            renamedFields.contains(name) ? images[member] ?? apply(member) : apply(member)
        }
        return .object(renamed)
      case .array(let elements): return .array(elements.map(apply))
      case .null, .bool, .integer, .number, .string: return value
      }
    }
  }

  /// The groups of keys that nothing distinguishes: the file names none of the keys, and all keys
  /// of a group belong to the same nodes.
  private var interchangeableKeys: [[JSONValue]] {
    var nodes: [JSONValue: [String]] = [:]
    for (node, keys) in keysByNode.sorted(by: { $0.key < $1.key }) {
      for key in keys where !key.isNamed { nodes[key.value, default: []].append(node) }
    }
    return Dictionary(grouping: nodes.keys.sorted { $0.text < $1.text }) { nodes[$0] ?? [] }
      .sorted { $0.key.joined(separator: " ") < $1.key.joined(separator: " ") }.map(\.value)
  }

  /// Renamings of interchangeable keys. Together with the identity, they form a group.
  ///
  /// If there are many keys, only some of them are renamed.
  var renamings: [Renaming] {
    var all: [[JSONValue: JSONValue]] = [[:]]
    for keys in interchangeableKeys {
      let renamed = Array(keys.prefix(Self.maximumRenamedKeyCount))
      let permutations = Self.permutations(of: renamed)
      guard all.count * permutations.count <= Self.maximumRenamingCount else { continue }
      all = all.flatMap { renaming in
        permutations.map { permutation in
          renaming.merging(zip(renamed, permutation)) { $1 }
        }
      }
    }
    return all.map { Renaming(images: $0.filter { $0.key != $0.value }, renamedFields: fieldNames) }
      .filter { !$0.images.isEmpty }
  }

  /// Returns the name of the instance, node or composite after a renaming.
  func name(_ name: String, after renaming: Renaming) -> String {
    guard var instance = InstanceName(name),
      let key = keysByNode[instance.node]?.first(where: { $0.text == instance.key }),
      let image = renaming.images[key.value]
    else { return name }
    instance.key = image.keyText
    return instance.description
  }

  /// Returns a combination of states for each choice of keys. In `combination`, an example key
  /// stands for any interchangeable key, and different example keys stand for different keys.
  func combinations(_ combination: StateCombination) -> [StateCombination] {
    var renamings = [Renaming(images: [:], renamedFields: fieldNames)]
    for keys in interchangeableKeys {
      let used = keys.filter { key in
        combination.states.keys.contains { name in
          InstanceName(name).map { keysByNode[$0.node] != nil && $0.key == key.keyText } ?? false
        }
      }
      for key in used {
        renamings = renamings.flatMap { renaming in
          keys.filter { image in !used.contains { renaming.images[$0] == image } }.map { image in
            var renaming = renaming
            renaming.images[key] = image
            return renaming
          }
        }
      }
    }
    var all: [StateCombination] = []
    for renaming in renamings {
      let renamed = StateCombination(
        Dictionary(
          uniqueKeysWithValues: combination.states.map { (name($0.key, after: renaming), $0.value) }
        ))
      if !all.contains(renamed) { all.append(renamed) }
    }
    return all
  }

  private static func permutations(of keys: [JSONValue]) -> [[JSONValue]] {
    guard let first = keys.first else { return [[]] }
    return permutations(of: Array(keys.dropFirst())).flatMap { rest in
      (0...rest.count).map { place in
        Array(rest[..<place]) + [first] + Array(rest[place...])
      }
    }
  }
}

extension JSONValue {
  /// The text of a key as in the name of an instance.
  fileprivate var keyText: String { string ?? integer.map { "\($0)" } ?? "" }
}
