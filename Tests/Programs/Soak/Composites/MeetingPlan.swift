import NumberMachines
import PipeRuntime

/// A random topology for the soak of composites: the members, their composites, which may overlap, and
/// the pipes to and from the members.
package struct MeetingPlan: Equatable, Sendable {
  package struct Composite: Equatable, Sendable {
    package var name: String
    package var members: [String]
    /// The composite whose process is the coordinator.
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
  /// The members that receive numbers from a source, with the capacity of the pipe.
  package private(set) var fed: [String: Int] = [:]
  private var refusals: [String: Int] = [:]
  private var outCapacity = 16
  /// The members that are models.
  package private(set) var models: Set<String> = []
  /// The carrier nodes of embedded coordinators, by coordinator. Other coordinators have their own
  /// process.
  package private(set) var hosts: [String: String] = [:]

  /// The source of numbers for members, and the sink for the members' events.
  package static let source = "source"
  package static let sink = "sink"

  /// - Parameter hasModels: Whether some members are models, whose transitions are asynchronous.
  package init(hasModels: Bool = false, using generator: inout SplitMix64) {
    // A conflict class with overlapping composites, and one or two more that share no members with
    // it.
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
        fed[member] = [1, 3, 64].randomElement(using: &generator)!
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
      // At least one in each class: its first member.
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

  /// The composites with a coordinator process of their own.
  package var coordinators: [String] {
    composites.map(\.name).filter { name in composites.contains { $0.coordinator == name } }
  }

  /// All nodes that send their own numbers.
  var sources: [String] { [Self.source] + bells.map(\.source) }

  package subscript(composite: String) -> Composite? {
    composites.first { $0.name == composite }
  }

  /// The nodes that faults strike: the participants and their coordinators, the latter twice as
  /// often.
  var faultTargets: [String] { members + coordinators + coordinators + [Self.source] }

  var memberCoordinators: [MemberCoordinator] {
    composites.flatMap { composite in
      composite.members.map { MemberCoordinator(member: $0, coordinator: composite.coordinator) }
    }
  }

  /// A description in words.
  var summary: String {
    "\(composites.count) composites of \(members.count) nodes in \(coordinators.count) classes"
      + (models.isEmpty ? "" : ", \(models.count) nodes are models")
      + (hosts.isEmpty ? "" : ", \(hosts.count) coordinated within a node")
  }

  /// The topology for the orchestrator.
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
          // One event at a time, at the pace of the meetings.
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
      guard let capacity = fed[member] else { return [out] }
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
