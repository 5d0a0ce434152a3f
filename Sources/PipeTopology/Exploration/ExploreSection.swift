import PipeMachines
import PipeSupport
import PipeWire

/// What `check --explore` goes by: the section `explore` of a topology file. Source: docs/EXPLORE.md.
public struct ExploreSection: Sendable {
  /// The events that a pipe holds at most while it is explored, or what it has where that is lower. Unit: events.
  /// `nil`: 2 at first, raised while that may matter.
  public var capacity: Int?
  /// The events that nodes and composites are given from outside, by their names; `nil` leaves that to be
  /// assumed. A name that is missing is given none.
  public var fromOutside: [String: [EventPattern]]?
  /// The values that are tried: by node or composite, then by event, then by field.
  public var values: [String: [String: [String: ValueSet]]]
  /// The events that effects may give: by node, then by output or state whose effect or feedback it is.
  public var gives: [String: [String: EffectPattern]]
  /// Whole numbers of states that count round: by node, then by field, the number after which they begin at 0.
  public var fold: [String: [String: Int]]
  /// Nodes of which nothing is asked: each of them may send any of its events at any time.
  public var any: [String]
  /// States in which the topology may end: none of them is a deadlock.
  public var end: [StateCombination]
  /// What is to hold, by its names.
  public var properties: [ExploredProperty]
  /// Findings that are expected.
  public var allow: [AllowedFinding]

  /// Makes a section.
  public init(
    capacity: Int? = nil, fromOutside: [String: [EventPattern]]? = nil,
    values: [String: [String: [String: ValueSet]]] = [:],
    gives: [String: [String: EffectPattern]] = [:], fold: [String: [String: Int]] = [:],
    any: [String] = [], end: [StateCombination] = [], properties: [ExploredProperty] = [],
    allow: [AllowedFinding] = []
  ) {
    self.capacity = capacity
    self.fromOutside = fromOutside
    self.values = values
    self.gives = gives
    self.fold = fold
    self.any = any
    self.end = end
    self.properties = properties
    self.allow = allow
  }

  /// The nodes and composites whose states are looked out for.
  package var watchedNames: Set<String> {
    Set((end + properties.map(\.states)).flatMap(\.states.keys))
  }

  /// The capacity with which a search begins where the file names none. Unit: events.
  public static let standardCapacity = 2

  /// The events that a pipe holds at most while it is explored. Unit: events.
  public static func capacity(of pipe: PipeSpecification, in section: ExploreSection?) -> Int {
    min(pipe.capacity, section?.capacity ?? standardCapacity)
  }
}

extension ExploreSection: Equatable {
  /// Equal in all but the order of the properties, which are a map in the file.
  public static func == (left: Self, right: Self) -> Bool {
    left.capacity == right.capacity && left.fromOutside == right.fromOutside
      && left.values == right.values && left.gives == right.gives && left.fold == right.fold
      && left.any == right.any && left.end == right.end && left.allow == right.allow
      && left.properties.sorted { $0.name < $1.name }
        == right.properties.sorted { $0.name < $1.name }
  }
}

/// Some states of some nodes or composites, by their names: it holds where each of them is in its state.
public struct StateCombination: Hashable, Sendable {
  /// The state of each of them, as a person writes it.
  public var states: [String: StateCondition]

  /// Makes a combination.
  public init(_ states: [String: StateCondition]) { self.states = states }
}

/// Something that is to hold of a topology.
public struct ExploredProperty: Hashable, Sendable {
  /// What is asked of the states that it names.
  public enum Demand: String, CaseIterable, Hashable, Sendable {
    /// No reachable state is one of them.
    case never
    /// From each reachable state one of them can be reached.
    case alwaysPossible = "always_possible"
  }

  /// The name; unique among properties.
  public var name: String
  /// What is asked.
  public var demand: Demand
  /// Of which states.
  public var states: StateCombination

  /// Makes a property.
  public init(name: String, demand: Demand, states: StateCombination) {
    self.name = name
    self.demand = demand
    self.states = states
  }
}

/// The values that are tried of one field.
public enum ValueSet: Hashable, Sendable {
  case values([JSONValue])
  /// Whole numbers, written `0..4`.
  case range(ClosedRange<Int64>)

  /// The values that a set may have. Unit: values.
  public static let limit = 10_000

  /// Each value, in order.
  public var values: [JSONValue] {
    switch self {
    case .values(let values): values
    case .range(let range): range.map(JSONValue.integer)
    }
  }

  /// Reads `0..4`; `nil` where a text is none, or the range holds nothing or more than ``limit``.
  init?(range text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, parts[1].isEmpty, let first = Int64(parts[0]),
      let last = Int64(parts[2]), first <= last,
      last.subtractingReportingOverflow(first).partialValue < Int64(Self.limit),
      !last.subtractingReportingOverflow(first).overflow
    else { return nil }
    self = .range(first...last)
  }

  /// Whether a text has the form of a range, be it one or not.
  static func looksLikeRange(_ text: String) -> Bool {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 3 && parts[1].isEmpty
      && [parts[0], parts[2]].allSatisfy { part in
        let digits = part.first == "-" ? part.dropFirst() : part
        return !digits.isEmpty && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
      }
  }

  /// How it stands in a file.
  var json: JSONValue {
    switch self {
    case .values(let values): .array(values)
    case .range(let range): .string("\(range.lowerBound)..\(range.upperBound)")
    }
  }
}

/// An event as it may come: its name, and for some of its fields the values that they may have.
///
/// A field that is left out has the values that the section declares for the event, or else those of its
/// type. One value alone stands as it is; `a..b` stands for whole numbers.
public struct EventPattern: Hashable, Sendable {
  /// The event's name.
  public var event: String
  /// The fields that are named.
  public var fields: [String: ValueSet]

  /// Makes a pattern.
  public init(_ event: String, fields: [String: ValueSet] = [:]) {
    self.event = event
    self.fields = fields
  }
}

/// What an effect may give.
public struct EffectPattern: Hashable, Sendable {
  /// The events, of which it gives one; of a sequence any of them, again and again.
  public var events: [EventPattern]
  /// Whether it may also end without an event.
  public var mayEnd: Bool

  /// Makes a pattern.
  public init(_ events: [EventPattern], mayEnd: Bool = false) {
    self.events = events
    self.mayEnd = mayEnd
  }
}

extension TopologyReading {
  /// Checks that what is explored speaks of nodes and composites that there are.
  mutating func checkExplore(of topology: Topology) {
    guard let section = topology.explore else { return }
    let path = ["explore"]
    let owner = "'explore'"
    for name in (section.fromOutside ?? [:]).keys.sorted() {
      checkTaker(name, at: path + ["from_outside", name], owner: owner, topology)
    }
    for (name, events) in section.values.sorted(by: { $0.key < $1.key }) {
      for event in events.keys.sorted() {
        checkTaker(name, at: path + ["values", "\(name).\(event)"], owner: owner, topology)
      }
    }
    for name in section.gives.keys.sorted() {
      checkTaker(name, at: path + ["gives", name], owner: owner, topology, among: [.node])
    }
    for name in section.fold.keys.sorted() {
      checkTaker(name, at: path + ["fold", name], owner: owner, topology, among: [.node])
    }
    for (index, name) in section.any.enumerated() {
      checkName(
        name, at: source.mark(of: path + ["any", String(index)]), owner: "\(owner), 'any'")
    }
    for (index, end) in section.end.enumerated() {
      let list = path + ["end", String(index)]
      let isListed = end.states.keys.contains { source.has(list + [$0]) }
      checkStates(end, at: isListed ? list : path + ["end"], owner: "\(owner), 'end'")
    }
    for property in section.properties {
      checkStates(
        property.states, at: path + ["properties", property.name, property.demand.rawValue],
        owner: "property '\(property.name)'")
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
        node, at: source.mark(of: path + ["node"]), owner: owner, among: [.node, .composite])
    }
    let pipes = topology.pipes.map(\.name)
    guard let pipe = entry.pipe, !pipes.contains(pipe) else { return }
    report(
      .badName, at: path + ["pipe"],
      "\(owner): there is no pipe '\(pipe)'" + Suggestion.among(pipes, like: pipe))
  }

  private mutating func checkTaker(
    _ name: String, at path: [String], owner: String, _ topology: Topology,
    among kinds: [Kind] = [.node, .composite]
  ) {
    let owner = "\(owner), '\(path[1])'"
    checkName(name, at: source.mark(ofKey: path), owner: owner, among: kinds)
    guard topology.node(name)?.constant != nil else { return }
    report(
      .badValue, at: source.mark(ofKey: path),
      "\(owner): node '\(name)' is constant and takes no events; leave it out")
  }

  private mutating func checkStates(
    _ combination: StateCombination, at path: [String], owner: String
  ) {
    for name in combination.states.keys.sorted() {
      checkName(
        name, at: source.mark(ofKey: path + [name]), owner: owner, among: [.node, .composite])
    }
  }
}
