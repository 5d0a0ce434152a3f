import NumberMachines
import PipeRuntime

/// A random topology for the soak of composites. It consists of members, composites of members,
/// which may overlap, and pipes to and from members.
package struct MeetingPlan: Equatable, Sendable {
  package struct Composite: Equatable, Sendable {
    package var name: String
    package var members: [String]
    /// The name of the composite whose process is the coordinator.
    package var coordinator: String
  }

  /// A source that requests meetings of a composite.
  package struct Bell: Equatable, Sendable {
    package var source: String
    package var composite: String
    package var onRefused: PipeSpecification.OnRefused
  }

  package private(set) var members: [String] = []
  package private(set) var composites: [Composite] = []
  package private(set) var bells: [Bell] = []
  /// The members that receive numbers from a source, each with the capacity of the pipe.
  package private(set) var feedCapacitiesByMember: [String: Int] = [:]
  private var refusals: [String: Int] = [:]
  private var outCapacity = 16
  /// The members that are written as actors.
  package private(set) var models: Set<String> = []
  /// For each embedded coordinator, its carrier node. Other coordinators have processes of their
  /// own.
  package private(set) var hosts: [String: String] = [:]

  /// The names of the source that sends numbers to members, and of the sink for events of members
  /// (`sink`).
  package static let source = "source"
  package static let sink = "sink"

  /// - Parameter hasModels: Whether some members are written as actors, so that their transitions
  ///   are asynchronous.
  package init(hasModels: Bool = false, using generator: inout SplitMix64) {
    // Create a conflict class with overlapping composites. One or two other composites share no
    // members with it.
    let chain = (0..<Int.random(in: 3...4, using: &generator)).map { _ in newMember() }
    add([chain[0], chain[1]], of: nil)
    add(Array(chain[1...]), of: "c1")
    if Bool.random(using: &generator) { add([chain[0], chain[2]], of: "c1") }
    for _ in 0..<Int.random(in: 1...2, using: &generator) {
      let others = (0..<Int.random(in: 2...3, using: &generator)).map { _ in newMember() }
      add(others, of: nil)
    }
    for (index, member) in members.enumerated() {
      if Bool.random(using: &generator) || index == 0 {
        feedCapacitiesByMember[member] = [1, 3, 64].randomElement(using: &generator)!
      }
      refusals[member] = Int.random(in: 0...19, using: &generator)
    }
    for (index, coordinator) in coordinators.enumerated() {
      let composites = composites.filter { $0.coordinator == coordinator }
      bells.append(
        Bell(
          source: "\(NumberMember.bell)\(index + 1)",
          composite: composites.randomElement(using: &generator)!.name,
          onRefused: Bool.random(using: &generator) ? .postpone : .record))
    }
    outCapacity = [1, 16, 1024].randomElement(using: &generator)!
    if hasModels {
      // In each class, at least the first member is a model.
      models = Set(
        members.filter { member in
          composites.contains { $0.members[0] == member } || Bool.random(using: &generator)
        })
    }
    for coordinator in coordinators where Bool.random(using: &generator) {
      let members = composites.filter { $0.coordinator == coordinator }.flatMap(\.members)
      hosts[coordinator] = members.randomElement(using: &generator)
    }
  }

  private mutating func newMember() -> String {
    members.append("m\(members.count + 1)")
    return members[members.count - 1]
  }

  private mutating func add(_ members: [String], of coordinator: String?) {
    let name = "c\(composites.count + 1)"
    composites.append(
      Composite(name: name, members: members, coordinator: coordinator ?? name))
  }

  /// The names of the coordinators that have processes of their own.
  package var coordinators: [String] {
    composites.map(\.name).filter { name in composites.contains { $0.coordinator == name } }
  }

  /// The nodes that send numbers of their own.
  var sources: [String] { [Self.source] + bells.map(\.source) }

  package subscript(composite: String) -> Composite? {
    composites.first { $0.name == composite }
  }

  /// The nodes that faults strike: the members, the source, and the coordinators, which are struck
  /// twice as often.
  var faultTargets: [String] { members + coordinators + coordinators + [Self.source] }

  var memberCoordinators: [MemberCoordinator] {
    composites.flatMap { composite in
      composite.members.map { MemberCoordinator(member: $0, coordinator: composite.coordinator) }
    }
  }

  /// A description of the plan, for people.
  var summary: String {
    "\(composites.count) composites of \(members.count) nodes in \(coordinators.count) classes"
      + (models.isEmpty ? "" : ", \(models.count) nodes are models")
      + (hosts.isEmpty ? "" : ", \(hosts.count) coordinated within a node")
  }

  /// Returns the topology that the orchestrator runs.
  package func topology(
    name: String, program: String, environment: [String: String], durability: Durability,
    heartbeat: Duration
  ) -> Topology {
    func node(_ name: String, _ machine: String, _ parameters: JSONValue) -> NodeSpecification {
      var specification = NodeSpecification.machine(
        machine, name: name, parameters: parameters, restart: SoakPlan.restart)
      specification.durability = durability
      return specification
    }
    return Topology(
      name: name, program: program, environment: environment,
      nodes: members.map {
        let refused = Int64(refusals[$0] ?? -1)
        let machine = models.contains($0) ? "NumberModel" : "NumberMember"
        return node($0, machine, ["id": .string($0), "refuses": .integer(refused)])
      } + [
        node(Self.source, "NumberSource", ["id": .string(Self.source)]),
        node(Self.sink, "NumberSink", ["id": .string(Self.sink)]),
      ]
        + bells.map {
          // Bells send one event at a time, because meetings take time.
          node(
            $0.source, "NumberSource", ["id": .string($0.source), "burst": 1, "pause": 20_000])
        },
      pipes: pipes,
      composites: composites.map {
        CompositeSpecification(
          name: $0.name, components: $0.members, synchronize: ["meet"],
          within: hosts[$0.coordinator])
      },
      monitors: [SoakPlan.monitor(of: Self.source)],
      timeouts: SoakPlan.timeouts(heartbeat: heartbeat))
  }

  private var pipes: [PipeSpecification] {
    members.flatMap { member -> [PipeSpecification] in
      let out = PipeSpecification.ports(
        from: member + ".out", to: Self.sink + ".in", capacity: outCapacity)
      guard let capacity = feedCapacitiesByMember[member] else { return [out] }
      return [
        out,
        .rule(
          from: Self.source, when: "sending", to: member,
          send: ["number": ["route": .string(Self.source), "n": "$n"]], capacity: capacity,
          onRefused: .postpone),
      ]
    }
      + bells.map { bell in
        .rule(
          from: bell.source, when: "sending", to: bell.composite,
          send: ["meet": ["by": .string(bell.source), "n": "$n"]], capacity: 8,
          onRefused: bell.onRefused)
      }
  }
}
