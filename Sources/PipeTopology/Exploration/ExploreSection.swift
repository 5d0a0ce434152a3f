import PipeMachines
import PipeSupport
import PipeWire

/// The settings of `check --explore`: the `explore` section of a topology file. Source: docs/EXPLORE.md.
public struct ExploreSection: Sendable {
  /// The maximum number of events in a pipe during exploration; a lower capacity of the pipe itself
  /// takes precedence.
  ///
  /// If `nil`, the search starts with 2. While the result may depend on this number, the search
  /// repeats with a higher number.
  public var capacity: Int?
  /// The number of instances of each node with a `key`, by node. Default: ``defaultKeyCount``.
  public var instanceCountsByNode: [String: Int]
  /// The events that come from outside the topology, by the name of the receiving node or composite.
  ///
  /// A node or composite that is not listed receives no events from outside. If `nil`, the search
  /// assumes that events without another origin come from outside.
  public var fromOutside: [String: [EventPattern]]?
  /// The values to try for the fields of events: by node or composite, then by event, then by field.
  public var values: [String: [String: [String: ValueSet]]]
  /// The events that effects and feedbacks may emit: by node, then by the output of the effect or
  /// the state of the feedback.
  public var effectEvents: [String: [String: EffectPattern]]
  /// The moduli of integer fields, by node and then by field.
  ///
  /// The search merges values that have the same remainder. With the modulus 8, a value of 8 counts
  /// as 0, a value of 9 counts as 1, and so on.
  public var foldModuli: [String: [String: Int]]
  /// The nodes whose machines are not evaluated. The search assumes that each of these nodes may
  /// send any of its events at any time.
  public var unevaluatedNodes: [String]
  /// The combinations of states in which the topology is allowed to end. Such a combination is not
  /// a deadlock.
  public var allowedEndStates: [StateCombination]
  /// The properties to check, with unique names.
  public var properties: [ExploredProperty]
  /// The descriptions of findings that are expected, and therefore do not fail the check.
  public var allow: [AllowedFinding]

  /// Makes a section.
  public init(
    capacity: Int? = nil, instanceCountsByNode: [String: Int] = [:],
    fromOutside: [String: [EventPattern]]? = nil,
    values: [String: [String: [String: ValueSet]]] = [:],
    effectEvents: [String: [String: EffectPattern]] = [:],
    foldModuli: [String: [String: Int]] = [:],
    unevaluatedNodes: [String] = [], allowedEndStates: [StateCombination] = [],
    properties: [ExploredProperty] = [],
    allow: [AllowedFinding] = []
  ) {
    self.capacity = capacity
    self.instanceCountsByNode = instanceCountsByNode
    self.fromOutside = fromOutside
    self.values = values
    self.effectEvents = effectEvents
    self.foldModuli = foldModuli
    self.unevaluatedNodes = unevaluatedNodes
    self.allowedEndStates = allowedEndStates
    self.properties = properties
    self.allow = allow
  }

  /// The nodes and composites whose states the section refers to.
  package var watchedNames: Set<String> {
    Set((allowedEndStates + properties.map(\.states)).flatMap(\.states.keys))
  }

  /// The initial capacity of pipes in a search if the file does not declare a capacity. Unit: events.
  public static let defaultCapacity = 2

  /// The number of instances of a node with a `key` if the file does not declare a number.
  public static let defaultKeyCount = 2
  /// The permitted numbers of instances.
  static let keyCountRange = 1...8

  /// Returns the maximum number of events in a pipe during exploration.
  public static func capacity(of pipe: PipeSpecification, in section: ExploreSection?) -> Int {
    min(pipe.capacity, section?.capacity ?? defaultCapacity)
  }
}

extension ExploreSection: Equatable {
  /// Returns whether two sections are equal. The order of the properties has no meaning, since they
  /// are a mapping in the file.
  public static func == (left: Self, right: Self) -> Bool {
    left.capacity == right.capacity && left.instanceCountsByNode == right.instanceCountsByNode
      && left.fromOutside == right.fromOutside
      && left.values == right.values && left.effectEvents == right.effectEvents
      && left.foldModuli == right.foldModuli
      && left.unevaluatedNodes == right.unevaluatedNodes
      && left.allowedEndStates == right.allowedEndStates && left.allow == right.allow
      && left.properties.sorted { $0.name < $1.name }
        == right.properties.sorted { $0.name < $1.name }
  }
}

/// A condition that holds while each of several nodes or composites is in its listed state.
public struct StateCombination: Hashable, Sendable {
  /// The state conditions, by node or composite.
  public var states: [String: StateCondition]

  /// Makes a combination.
  public init(_ states: [String: StateCondition]) { self.states = states }
}

/// A property that a topology must have.
public struct ExploredProperty: Hashable, Sendable {
  /// The requirement on the states of a property.
  public enum Demand: String, CaseIterable, Hashable, Sendable {
    /// The states must not be reachable.
    case never
    /// The states must be reachable from every reachable state.
    case alwaysPossible = "always_possible"
  }

  /// The name; unique among properties.
  public var name: String
  /// The requirement on the states.
  public var demand: Demand
  /// The combination of states to which ``demand`` applies.
  public var states: StateCombination

  /// Makes a property.
  public init(name: String, demand: Demand, states: StateCombination) {
    self.name = name
    self.demand = demand
    self.states = states
  }
}

/// The values to try for one field.
public enum ValueSet: Hashable, Sendable {
  case values([JSONValue])
  /// A range of integers, written `0..4`.
  case range(ClosedRange<Int64>)

  /// The maximum number of values in a set.
  public static let maximumValueCount = 10_000

  /// All values, in order.
  public var values: [JSONValue] {
    switch self {
    case .values(let values): values
    case .range(let range): range.map(JSONValue.integer)
    }
  }

  /// Parses a range such as `0..4`. Returns `nil` if the text is not a range, or if the range is
  /// empty or has more than ``maximumValueCount`` values.
  init?(range text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[1].isEmpty, let first = Int64(parts[0]),
      let last = Int64(parts[2]), first <= last,
      last.subtractingReportingOverflow(first).partialValue < Int64(Self.maximumValueCount),
      !last.subtractingReportingOverflow(first).overflow
    else { return nil }
    self = .range(first...last)
  }

  /// Returns whether a text has the form of a range, even if the range is invalid.
  static func looksLikeRange(_ text: String) -> Bool {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 3 && parts[1].isEmpty
      && [parts[0], parts[2]].allSatisfy { part in
        let digits = part.first == "-" ? part.dropFirst() : part
        return !digits.isEmpty && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
      }
  }

  /// The set as written in a file.
  var json: JSONValue {
    switch self {
    case .values(let values): .array(values)
    case .range(let range): .string("\(range.lowerBound)..\(range.upperBound)")
    }
  }
}

/// An event to try in a search, with the values to try for some of its fields.
///
/// For a field without values, the search tries the values that the section declares for the event,
/// or else values of the field's type. In the file, a single value is written without a list, and
/// `a..b` is a range of integers.
public struct EventPattern: Hashable, Sendable {
  /// The event's name.
  public var event: String
  /// The values to try, by field.
  public var fields: [String: ValueSet]

  /// Makes a pattern.
  public init(_ event: String, fields: [String: ValueSet] = [:]) {
    self.event = event
    self.fields = fields
  }
}

/// The events that an effect may emit.
public struct EffectPattern: Hashable, Sendable {
  /// The events. An effect emits one of these events. An effect that is a sequence may emit several
  /// of them.
  public var events: [EventPattern]
  /// Whether the effect may end without an event.
  public var mayEnd: Bool

  /// Makes a pattern.
  public init(_ events: [EventPattern], mayEnd: Bool = false) {
    self.events = events
    self.mayEnd = mayEnd
  }
}

extension TopologyReading {
  /// Checks that the `explore` section refers only to existing nodes and composites.
  mutating func checkExplore(of topology: Topology) {
    guard let section = topology.explore else { return }
    let path = ["explore"]
    let owner = "'explore'"
    for name in section.instanceCountsByNode.keys.sorted() {
      let place = path + ["keys", name]
      checkRecipient(name, at: place, owner: owner, topology, among: [.node])
      guard let node = topology.node(name), node.key == nil else { continue }
      report(
        .badValue, at: source.position(ofKey: place),
        "\(owner), 'keys': node '\(name)' has no 'key', and therefore no instances; remove the node"
      )
    }
    for name in (section.fromOutside ?? [:]).keys.sorted() {
      checkRecipient(name, at: path + ["from_outside", name], owner: owner, topology)
    }
    for (name, events) in section.values.sorted(by: { $0.key < $1.key }) {
      for event in events.keys.sorted() {
        checkRecipient(name, at: path + ["values", "\(name).\(event)"], owner: owner, topology)
      }
    }
    for name in section.effectEvents.keys.sorted() {
      checkRecipient(name, at: path + ["gives", name], owner: owner, topology, among: [.node])
    }
    for name in section.foldModuli.keys.sorted() {
      checkRecipient(name, at: path + ["fold", name], owner: owner, topology, among: [.node])
    }
    for (index, name) in section.unevaluatedNodes.enumerated() {
      checkName(
        name, at: source.position(of: path + ["any", String(index)]), owner: "\(owner), 'any'")
      guard topology.node(name)?.key != nil else { continue }
      report(
        .badValue, at: path + ["any", String(index)],
        "\(owner), 'any': node '\(name)' has a 'key', and the search cannot assume the events of its "
          + "instances; remove the node")
    }
    for (index, end) in section.allowedEndStates.enumerated() {
      let list = path + ["end", String(index)]
      let isListed = end.states.keys.contains { source.hasValue(at: list + [$0]) }
      checkStates(end, at: isListed ? list : path + ["end"], owner: "\(owner), 'end'", topology)
    }
    for property in section.properties {
      checkStates(
        property.states, at: path + ["properties", property.name, property.demand.rawValue],
        owner: "property '\(property.name)'", topology)
    }
    for (index, entry) in section.allow.enumerated() {
      checkAllowed(entry, at: path + ["allow", String(index)], topology)
    }
  }

  private mutating func checkAllowed(
    _ entry: AllowedFinding, at path: [String], _ topology: Topology
  ) {
    let owner = "'explore', 'allow'"
    if let node = entry.node {
      checkName(
        node, at: source.position(of: path + ["node"]), owner: owner, among: [.node, .composite])
    }
    let pipes = topology.pipes.map(\.name)
    guard let pipe = entry.pipe, !pipes.contains(pipe) else { return }
    report(
      .badName, at: path + ["pipe"],
      "\(owner): no such pipe '\(pipe)'" + Suggestion.among(pipes, like: pipe))
  }

  private mutating func checkRecipient(
    _ name: String, at path: [String], owner: String, _ topology: Topology,
    among kinds: [Kind] = [.node, .composite]
  ) {
    let owner = "\(owner), '\(path[1])'"
    checkName(name, at: source.position(ofKey: path), owner: owner, among: kinds)
    guard topology.node(name)?.constant != nil else { return }
    report(
      .badValue, at: source.position(ofKey: path),
      "\(owner): node '\(name)' is constant and accepts no events; remove the node")
  }

  private mutating func checkStates(
    _ combination: StateCombination, at path: [String], owner: String, _ topology: Topology
  ) {
    for name in combination.states.keys.sorted() {
      let mark = source.position(ofKey: path + [name])
      let instance = InstanceName(name)
      let node = instance?.node ?? name
      checkName(node, at: mark, owner: owner, among: [.node, .composite])
      guard definitionsByName[node] != nil else { continue }
      let hasKey = topology.node(node)?.key != nil
      if instance == nil, hasKey {
        report(
          .badValue, at: mark,
          "\(owner): node '\(name)' has a 'key', and its instances have the states; name an instance, "
            + "such as '\(name)[a]'")
      } else if instance != nil, let composite = topology.composite(node), composite.key != nil {
        report(
          .badValue, at: mark,
          "\(owner): composite '\(node)' has no state of its own; name an instance of one of its nodes, "
            + "such as '\(composite.components.first ?? "")[\(instance?.key ?? "")]'")
      } else if instance != nil, !hasKey {
        report(
          .badValue, at: mark,
          "\(owner): '\(node)' has no 'key', and therefore no instances; write '\(node)'")
      }
    }
  }
}
