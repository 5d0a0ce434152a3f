import PipeModelChecker
import PipeRuntime

/// Replays a run, item by item, through the states that a search has found.
package struct ExploredPath {
  /// An item that the search did not predict.
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  /// Counts of notable events, which show whether a soak has covered them.
  package struct Sights: Equatable, Sendable {
    package var steps = 0
    package var refusals = 0
    package var effects = 0
    /// The number of events that were taken before an earlier event of the same pipe.
    package var overtaking = 0
    /// The number of steps after which a pipe held more events than its capacity.
    package var overshooting = 0

    package init() {}

    package static func += (left: inout Sights, right: Sights) {
      left.steps += right.steps
      left.refusals += right.refusals
      left.effects += right.effects
      left.overtaking += right.overtaking
      left.overshooting += right.overshooting
    }

    /// The kinds of events that never occurred, in words.
    package var missing: [String] {
      let all = [
        ("a step", steps), ("a dead letter", refusals), ("an effect", effects),
        ("an event that overtakes another one", overtaking),
        ("a step that sends more than there is room for", overshooting),
      ]
      return all.filter { $0.1 == 0 }.map(\.0)
    }
  }

  private let explored: ExploredTopology
  private let pipes: [PipeSpecification]
  /// The states in which the run may be. There may be several, because running effects are not
  /// reported.
  private var states: Set<ExploredTopology.State>
  /// The events in each pipe, with their numbers.
  private var held: [String: [(number: UInt64, event: JSONValue)]] = [:]
  package private(set) var sights = Sights()

  package init(_ explored: ExploredTopology, _ pipes: [PipeSpecification]) {
    self.explored = explored
    self.pipes = pipes
    states = [explored.first]
    for pipe in pipes {
      held[pipe.name] = explored.contents(of: pipe.name, in: explored.first).enumerated().map {
        (UInt64($0.offset) + 1, $0.element)
      }
    }
  }

  /// Returns the number of events in a pipe.
  package func count(of pipe: String) -> Int { held[pipe]?.count ?? 0 }

  /// Replays a whole run.
  package mutating func take(_ line: [RunTrace.Item]) throws(Failure) {
    for (index, item) in line.enumerated() {
      do { try take(item) } catch {
        let way = line[..<index].suffix(12).map { "\n    \($0)" }.joined()
        throw Failure(description: "\(error); before that:\(way.isEmpty ? " nothing" : way)")
      }
    }
  }

  /// Replays an item, which must be a step from one of the possible states.
  package mutating func take(_ item: RunTrace.Item) throws(Failure) {
    let possible = Set(states.flatMap(statesAfterLostEvents(of: item.node)))
    var next: Set<ExploredTopology.State> = []
    for state in possible {
      for step in explored.steps(from: state) where Self.isTold(step, by: item, explored) {
        next.insert(step.target)
      }
    }
    guard !next.isEmpty else {
      throw Failure(description: "no step of the search is this one: \(item), with \(text)")
    }
    try move(item)
    let same = next.filter { state in
      pipes.allSatisfy { pipe in
        explored.contents(of: pipe.name, in: state) == held[pipe.name]?.map(\.event)
      }
    }
    guard !same.isEmpty else {
      throw Failure(
        description: "the search has other events in the pipes behind this one: \(item), "
          + "with \(text)")
    }
    guard same.allSatisfy(explored.hasVisited) else {
      throw Failure(description: "the search has not met the state behind this one: \(item)")
    }
    states = same
    note(item)
  }

  private static func isTold(
    _ step: ExploredTopology.Step, by item: RunTrace.Item, _ explored: ExploredTopology
  ) -> Bool {
    guard step.owner == item.node, step.event == item.event,
      step.isRefused == (item.state == nil)
    else { return false }
    switch (step.origin, item.origin) {
    case (.outside, .outside), (.effect, .effect): break
    case (.pipe(let name), .pipe(let told, _)) where name == told: break
    default: return false
    }
    guard let state = item.state else { return true }
    let sent = item.sent.map { EvaluatorSend(pipe: $0.pipe, event: $0.event ?? .null) }
    return explored.state(of: item.node, in: step.target) == state
      && Self.byPipe(step.sends) == Self.byPipe(sent)
  }

  /// Groups sends by pipe, because the order between different pipes does not matter.
  private static func byPipe(_ sends: [EvaluatorSend]) -> [String: [JSONValue]] {
    Dictionary(grouping: sends, by: \.pipe).mapValues { $0.map(\.event) }
  }

  /// Returns a state, and the states after events of effects that the node refused. Such refusals
  /// are not reported.
  private func statesAfterLostEvents(
    of node: String
  ) -> (ExploredTopology.State) -> Set<ExploredTopology.State> {
    { state in
      var found: Set = [state]
      var open = [state]
      while let state = open.popLast() {
        for step in explored.steps(from: state) where step.owner == node && step.isRefused {
          guard case .effect = step.origin, found.insert(step.target).inserted else { continue }
          open.append(step.target)
        }
      }
      return found
    }
  }

  /// Moves the numbered events of the pipes.
  private mutating func move(_ item: RunTrace.Item) throws(Failure) {
    if case .pipe(let name, let number) = item.origin {
      guard let place = held[name]?.firstIndex(where: { $0.number == number }) else {
        throw Failure(description: "the pipe does not hold what is taken: \(item), with \(text)")
      }
      if place > 0 { sights.overtaking += 1 }
      held[name]?.remove(at: place)
    }
    for sent in item.sent {
      held[sent.pipe, default: []].append((sent.number, sent.event ?? .null))
    }
  }

  private mutating func note(_ item: RunTrace.Item) {
    if item.state == nil { sights.refusals += 1 } else { sights.steps += 1 }
    if item.origin == .effect { sights.effects += 1 }
    let isOver = pipes.contains { pipe in
      pipe.sender == item.node && count(of: pipe.name) > pipe.capacity
        && item.sent.contains { $0.pipe == pipe.name }
    }
    if isOver { sights.overshooting += 1 }
  }

  /// The contents of the pipes, in words.
  private var text: String {
    let full = held.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
    guard !full.isEmpty else { return "empty pipes" }
    return full.map { name, events in
      "'\(name)': " + events.map { "\($0.number) \($0.event.caseText)" }.joined(separator: ", ")
    }.joined(separator: "; ")
  }
}
