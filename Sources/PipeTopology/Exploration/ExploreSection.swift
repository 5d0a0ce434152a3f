import PipeMachines

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
