import PipeRuntime

/// A random topology that is small enough for a full state search. It has two to four nodes with
/// the machine `Rambler`, and pipes with a capacity of one or two events.
package struct RamblingPlan: Equatable, Sendable {
  package struct Node: Equatable, Sendable {
    package let name: String
    /// The transitions, sent events and effects of the node, in the format of the machine's
    /// parameters.
    let steps: [String]
    let sends: [String]
    let stateEffects: [String]
    /// The events that are sent to the node from outside.
    package let externalEvents: [String]
  }

  package let nodes: [Node]
  package let pipes: [PipeSpecification]

  /// An event that a node accepts in its initial state, and that does not change the state.
  package static let tick = "tick"

  private static let states = ["home", "north", "east", "south"]
  private static let words = ["x", "y", "z"]
  private static let effects = ["hurry": "soon", "dawdle": "late"]

  package init(using generator: inout SplitMix64) {
    let count = [2, 2, 3, 3, 3, 4].randomElement(using: &generator)!
    nodes = (1...count).map { Self.node("node\($0)", using: &generator) }
    var pipes: [PipeSpecification] = []
    for _ in 0..<Int.random(in: count - 1...count + 1, using: &generator) {
      let pipe = Self.pipe(among: nodes.map(\.name), using: &generator)
      if !pipes.contains(where: { $0.name == pipe.name }) { pipes.append(pipe) }
    }
    self.pipes = pipes
  }

  private static func node(_ name: String, using generator: inout SplitMix64) -> Node {
    let states = states.prefix(Int.random(in: 3...4, using: &generator))
    var stateEffects: [String: String] = [:]
    for state in states.dropFirst() where Int.random(in: 0..<3, using: &generator) == 0 {
      stateEffects[state] = effects.keys.sorted().randomElement(using: &generator)!
    }
    let events = words + Set(stateEffects.values.compactMap { effects[$0] }).sorted()
    var steps: [String] = []
    var sends: [String] = []
    for state in states {
      for event in events where Int.random(in: 0..<100, using: &generator) < 55 {
        steps.append("\(state) \(event) \(states.randomElement(using: &generator)!)")
      }
      guard state != states[0] else { continue }
      let sent = (0..<[0, 1, 1, 2].randomElement(using: &generator)!).map { _ in
        words.randomElement(using: &generator)!
      }
      if !sent.isEmpty { sends.append(([state] + sent).joined(separator: " ")) }
    }
    let externalEvents = words.filter { _ in Int.random(in: 0..<2, using: &generator) == 0 }
    return Node(
      name: name, steps: steps, sends: sends,
      stateEffects: stateEffects.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" },
      externalEvents: externalEvents.isEmpty ? [words[0]] : externalEvents)
  }

  private static func pipe(
    among nodes: [String], using generator: inout SplitMix64
  ) -> PipeSpecification {
    let from = nodes.randomElement(using: &generator)!
    let to = nodes.filter { $0 != from }.randomElement(using: &generator)!
    let capacity = Int.random(in: 1...2, using: &generator)
    let onRefused = [RefusalPolicy.record, .postpone].randomElement(using: &generator)!
    if Int.random(in: 0..<3, using: &generator) > 0 {
      return .ports(
        from: from + ".out", to: to + ".in", capacity: capacity, onRefused: onRefused)
    }
    return .rule(
      from: from, when: states.dropFirst().randomElement(using: &generator)!, to: to,
      send: .string(words.randomElement(using: &generator)!), capacity: capacity,
      onRefused: onRefused)
  }

  /// Returns the topology, with all declarations that a search requires.
  package func topology(name: String, program: String, durability: Durability) -> Topology {
    var externalEvents: [String: [EventPattern]] = [:]
    var gives: [String: [String: EffectPattern]] = [:]
    for node in nodes {
      externalEvents[node.name] = ([Self.tick] + node.externalEvents).map { EventPattern($0) }
      gives[node.name] = Self.effects.mapValues { EffectPattern([EventPattern($0)]) }
    }
    return Topology(
      name: name, program: program,
      nodes: nodes.map { node in
        var specification = NodeSpecification.machine(
          "Rambler", name: node.name,
          parameters: [
            "steps": .texts(node.steps), "sends": .texts(node.sends),
            "works": .texts(node.stateEffects),
          ])
        specification.durability = durability
        return specification
      },
      pipes: pipes,
      explore: ExploreSection(capacity: 2, fromOutside: externalEvents, effectEvents: gives))
  }

  /// A description of the plan, for people.
  package var summary: String { "\(nodes.count) nodes, \(pipes.count) pipes" }
}
