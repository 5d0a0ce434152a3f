import PipeModelChecker
import PipeRuntime

/// Replays the steps of a real run in the states that a search has found. A step that the search
/// did not predict is an error.
package struct ExploredPath {
  /// An item of the run that the search did not predict.
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  /// Counts of rare events. They show whether a soak has covered these events.
  package struct EventCounts: Equatable, Sendable {
    package var steps = 0
    package var refusals = 0
    package var effects = 0
    /// The number of events that were processed before an earlier event of the same pipe.
    package var overtaking = 0
    /// The number of steps after which a pipe contained more events than its capacity.
    package var overshooting = 0

    package init() {}

    package static func += (left: inout EventCounts, right: EventCounts) {
      left.steps += right.steps
      left.refusals += right.refusals
      left.effects += right.effects
      left.overtaking += right.overtaking
      left.overshooting += right.overshooting
    }

    /// The names of the rare events that never occurred.
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
  /// The states in which the run may be. There may be several, because nodes do not report which
  /// effects are running.
  private var states: Set<ExploredTopology.State>
  /// For each pipe, the events that it contains, with their numbers.
  private var pipeContents: [String: [(number: UInt64, event: JSONValue)]] = [:]
  package private(set) var eventCounts = EventCounts()

  package init(_ explored: ExploredTopology, _ pipes: [PipeSpecification]) {
    self.explored = explored
    self.pipes = pipes
    states = [explored.initialState]
    for pipe in pipes {
      pipeContents[pipe.name] = explored.contents(of: pipe.name, in: explored.initialState)
        .enumerated()
        .map {
          (UInt64($0.offset) + 1, $0.element)
        }
    }
  }

  /// Returns the number of events that a pipe contains.
  package func count(of pipe: String) -> Int { pipeContents[pipe]?.count ?? 0 }

  /// Replays all items of a run.
  package mutating func replay(_ order: [RunTrace.Item]) throws(Failure) {
    for (index, item) in order.enumerated() {
      do { try replay(item) } catch {
        let precedingSteps = order[..<index].suffix(12).map { "\n    \($0)" }.joined()
        throw Failure(
          description:
            "\(error); before that:\(precedingSteps.isEmpty ? " nothing" : precedingSteps)")
      }
    }
  }

  /// Replays an item. It must be a step from one of the possible states.
  package mutating func replay(_ item: RunTrace.Item) throws(Failure) {
    let possible = Set(states.flatMap(statesAfterLostEvents(of: item.node)))
    var next: Set<ExploredTopology.State> = []
    for state in possible {
      for step in explored.steps(from: state) where Self.matches(step, by: item, explored) {
        next.insert(step.target)
      }
    }
    guard !next.isEmpty else {
      throw Failure(description: "no step of the search is this one: \(item), with \(text)")
    }
    try move(item)
    let matching = next.filter { state in
      pipes.allSatisfy { pipe in
        explored.contents(of: pipe.name, in: state) == pipeContents[pipe.name]?.map(\.event)
      }
    }
    guard !matching.isEmpty else {
      throw Failure(
        description: "the search has other events in the pipes behind this one: \(item), "
          + "with \(text)")
    }
    guard matching.allSatisfy(explored.hasVisited) else {
      throw Failure(description: "the search has not met the state behind this one: \(item)")
    }
    states = matching
    countEvents(item)
  }

  private static func matches(
    _ step: ExploredTopology.Step, by item: RunTrace.Item, _ explored: ExploredTopology
  ) -> Bool {
    guard step.owner == item.node, step.event == item.event,
      step.isRefused == (item.state == nil)
    else { return false }
    switch (step.origin, item.origin) {
    case (.outside, .outside), (.effect, .effect): break
    case (.pipe(let name), .pipe(let reportedPipe, _)) where name == reportedPipe: break
    default: return false
    }
    guard let state = item.state else { return true }
    let sent = item.sent.map { EvaluatorSend(pipe: $0.pipe, event: $0.event ?? .null) }
    return explored.state(of: item.node, in: step.target) == state
      && Self.byPipe(step.sends) == Self.byPipe(sent)
  }

  /// Groups sent events by pipe, because the order of events in different pipes does not matter.
  private static func byPipe(_ sends: [EvaluatorSend]) -> [String: [JSONValue]] {
    Dictionary(grouping: sends, by: \.pipe).mapValues { $0.map(\.event) }
  }

  /// Returns a function that maps a state to this state, and to all states that may follow without
  /// a report.
  ///
  /// Such a state follows when the node refuses an event of its effects: these refusals are not
  /// reported.
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

  /// Removes an event from its pipe, and adds the sent events to their pipes.
  private mutating func move(_ item: RunTrace.Item) throws(Failure) {
    if case .pipe(let name, let number) = item.origin {
      guard let index = pipeContents[name]?.firstIndex(where: { $0.number == number }) else {
        throw Failure(description: "the pipe does not hold what is taken: \(item), with \(text)")
      }
      if index > 0 { eventCounts.overtaking += 1 }
      pipeContents[name]?.remove(at: index)
    }
    for sent in item.sent {
      pipeContents[sent.pipe, default: []].append((sent.number, sent.event ?? .null))
    }
  }

  private mutating func countEvents(_ item: RunTrace.Item) {
    if item.state == nil { eventCounts.refusals += 1 } else { eventCounts.steps += 1 }
    if item.origin == .effect { eventCounts.effects += 1 }
    let isOverCapacity = pipes.contains { pipe in
      pipe.sender == item.node && count(of: pipe.name) > pipe.capacity
        && item.sent.contains { $0.pipe == pipe.name }
    }
    if isOverCapacity { eventCounts.overshooting += 1 }
  }

  /// The contents of all pipes, as text.
  private var text: String {
    let full = pipeContents.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
    guard !full.isEmpty else { return "empty pipes" }
    return full.map { name, events in
      "'\(name)': " + events.map { "\($0.number) \($0.event.caseText)" }.joined(separator: ", ")
    }.joined(separator: "; ")
  }
}
