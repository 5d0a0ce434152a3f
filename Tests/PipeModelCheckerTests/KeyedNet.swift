import PipeModelChecker
import PipeRuntime
import PipeSupervision
import TestSupport

/// A random topology with a composite of two nodes with a `key`, and a naive model of its run: the
/// messages of the two-phase protocol are steps of their own.
///
/// No machine has a cycle, so that the number of states is limited.
struct KeyedNet {
  /// A state without a transaction in progress. The order of the events in a pipe is not compared.
  struct Rest: Hashable {
    var places: [String]
    var queues: [[String]]
  }

  struct Pipe {
    let sender: String
    let receiver: String
    let event: String
    /// The index of the key in the events; `nil` for the key of the sender.
    let key: Int?

    var name: String { "\(sender):sending->\(receiver):\(event)" }

    func json(_ key: String) -> String {
      event == "word" ? #"{"word":{"text":"\#(key)"}}"# : #"{"y":{"id":"\#(key)"}}"#
    }
  }

  let keys = ["a", "b"]
  let pipes: [Pipe]
  /// The targets of steps, by node and then by place and event.
  private let targets: [String: [String: String]]
  private let outside: [String: [String]]
  private let hasNamedKey: Bool

  private static let places = ["0", "1", "sending", "2", "3"]
  private static let participants = ["left", "right"]
  private static let others = ["middle", "sink"]
  private static let stateLimit = 8_000

  init(_ seed: UInt64) {
    var random = Seeded(state: seed)
    func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &random) < percent }
    var targets: [String: [String: String]] = [:]
    for node in Self.participants + Self.others {
      let events = Self.participants.contains(node) ? ["x", "y"] : ["word.a", "word.b"]
      for (index, place) in Self.places.enumerated().dropLast() {
        for event in events where chance(55) {
          let target = Self.places[(index + 1)...].randomElement(using: &random)
          targets[node, default: [:]]["\(place) \(event)"] =
            event == "x" && chance(10) ? "ignore" : target
        }
      }
    }
    self.targets = targets
    hasNamedKey = chance(50)
    var pipes = [
      Pipe(sender: "left", receiver: "middle", event: "word", key: nil),
      Pipe(sender: "right", receiver: "sink", event: "word", key: nil),
    ]
    if hasNamedKey { pipes.append(Pipe(sender: "middle", receiver: "right", event: "y", key: 1)) }
    if chance(50) { pipes.append(Pipe(sender: "left", receiver: "right", event: "y", key: nil)) }
    self.pipes = pipes
    outside = ["both": ["x"]].merging(
      Self.participants.filter { _ in chance(60) }.map { ($0, ["y"]) }
    ) { first, _ in first }
  }

  /// The text of the topology file, without its first lines.
  var text: String {
    func steps(_ node: String) -> String {
      (targets[node] ?? [:]).sorted { $0.key < $1.key }.map { "\"\($0.key) \($0.value)\"" }
        .joined(separator: ", ")
    }
    return "nodes:\n"
      + Self.participants.map {
        "  \($0): { machine: KeyedAutomaton, key: id, parameters: { steps: [\(steps($0))] } }\n"
      }.joined()
      + Self.others.map {
        "  \($0): { machine: Automaton, parameters: { steps: [\(steps($0))] } }\n"
      }.joined()
      + "composites:\n"
      + "  both: { key: id, components: [left, right], synchronize: { x: [left, right] } }\n"
      + "pipes:\n"
      + pipes.map { pipe in
        let field = pipe.event == "word" ? "text" : "id"
        return "  - { from: \(pipe.sender), when: sending, to: \(pipe.receiver), send: { "
          + "\(pipe.event): { \(field): \(pipe.key.map { keys[$0] } ?? "$key") } } }\n"
      }.joined()
  }

  var section: ExploreSection {
    var section = ExplorationFixture.outside(outside)
    section.effectEvents = [
      "left": ["work": EffectPattern([])], "right": ["work": EffectPattern([])],
    ]
    if hasNamedKey { section.instanceCountsByNode = ["left": 1] }
    section.capacity = 8
    return section
  }

  /// The names of the instances and nodes, in the order of ``Rest/places``.
  var names: [String] {
    Self.participants.flatMap { node in keys.map { "\(node)[\($0)]" } } + Self.others
  }

  // MARK: The protocol

  private enum Phase: Hashable { case asked, voted, applied, released }

  private struct State: Hashable {
    /// The places of the instances, then of the other nodes; empty if an instance is not created.
    var places = ["", "", "", "", "0", "0"]
    var queues: [[Int]]
    /// For each instance, the events that wait until it is unlocked, by their keys.
    var waiting: [[Int]] = [[], [], [], []]
    /// For each key, the phases of the participants of the transaction in progress.
    var transactions: [[Phase]?] = [nil, nil]

    func isLocked(_ node: Int, _ key: Int) -> Bool {
      guard let phase = transactions[key]?[node] else { return false }
      return phase == .voted || phase == .applied
    }
  }

  /// Returns all reachable states without a transaction in progress and without waiting events.
  func restStates() -> Set<Rest> {
    let initial = State(queues: pipes.map { _ in [] })
    var met: Set = [initial]
    var next = [initial]
    var rests: Set<Rest> = []
    while let state = next.popLast(), met.count < Self.stateLimit {
      if state.transactions.allSatisfy({ $0 == nil }), state.waiting.allSatisfy(\.isEmpty) {
        rests.insert(
          Rest(
            places: state.places,
            queues: zip(pipes, state.queues).map { pipe, queue in
              queue.map { pipe.json(keys[$0]) }.sorted()
            }))
      }
      for target in successors(of: state) where met.insert(target).inserted { next.append(target) }
    }
    return rests
  }

  private func successors(of state: State) -> [State] {
    var found: [State] = []
    for key in keys.indices {
      if state.transactions[key] == nil {
        var next = state
        next.transactions[key] = [.asked, .asked]
        found.append(next)
      }
      for node in Self.participants.indices {
        found += protocolSteps(of: state, node, key)
        let instance = 2 * node + key
        guard !state.isLocked(node, key) else { continue }
        if let first = state.waiting[instance].first {
          var next = state
          next.waiting[instance].removeFirst()
          found.append(taking("y", first, node, next))
        } else if outside[Self.participants[node]] != nil {
          found.append(taking("y", key, node, state))
        }
      }
    }
    for (number, pipe) in pipes.enumerated() {
      guard let key = state.queues[number].first else { continue }
      var next = state
      next.queues[number].removeFirst()
      guard let node = Self.participants.firstIndex(of: pipe.receiver) else {
        found.append(receiving("word.\(keys[key])", pipe.receiver, next))
        continue
      }
      if state.isLocked(node, key) || !state.waiting[2 * node + key].isEmpty {
        next.waiting[2 * node + key].append(key)
        found.append(next)
      } else {
        found.append(taking("y", key, node, next))
      }
    }
    return found
  }

  private func protocolSteps(of state: State, _ node: Int, _ key: Int) -> [State] {
    guard let phases = state.transactions[key] else { return [] }
    var next = state
    let instance = 2 * node + key
    switch phases[node] {
    case .asked:
      guard state.waiting[instance].isEmpty else { return [] }
      let isAccepted = target(of: "x", Self.participants[node], state.places[instance]) != nil
      if isAccepted { next.transactions[key]?[node] = .voted } else { next.transactions[key] = nil }
      return [next]
    case .voted:
      guard !phases.contains(.asked) else { return [] }
      next.transactions[key]?[node] = .applied
      if state.places[instance].isEmpty { next.places[instance] = "0" }
      return [taking("x", key, node, next)]
    case .applied:
      next.transactions[key]?[node] = .released
      if next.transactions[key] == [.released, .released] { next.transactions[key] = nil }
      return [next]
    case .released: return []
    }
  }

  private func target(of event: String, _ node: String, _ place: String) -> String? {
    targets[node]?["\(place.isEmpty ? "0" : place) \(event)"]
  }

  /// Returns the state after an instance has taken, ignored or refused an event.
  private func taking(_ event: String, _ key: Int, _ node: Int, _ state: State) -> State {
    let name = Self.participants[node]
    let place = state.places[2 * node + key]
    guard let target = target(of: event, name, place), target != "ignore" else { return state }
    var next = state
    next.places[2 * node + key] = target
    send(from: name, entering: target, key, &next)
    return next
  }

  private func receiving(_ event: String, _ node: String, _ state: State) -> State {
    let index = 4 + (Self.others.firstIndex(of: node) ?? 0)
    guard let target = target(of: event, node, state.places[index]) else { return state }
    var next = state
    next.places[index] = target
    send(from: node, entering: target, 0, &next)
    return next
  }

  private func send(from node: String, entering place: String, _ key: Int, _ state: inout State) {
    guard place == "sending" else { return }
    for (number, pipe) in pipes.enumerated() where pipe.sender == node {
      state.queues[number].append(pipe.key ?? key)
    }
  }
}
