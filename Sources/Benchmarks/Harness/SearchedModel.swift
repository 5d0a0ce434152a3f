import PipeExploration

/// A model whose states are all searched, ours and by SPIN.
struct SearchedModel {
  let name: String
  private(set) var model = ExplorationModel()
  /// Where they are known from elsewhere.
  var states: Int?
  var steps: Int?

  private init(_ name: String) { self.name = name }

  /// Philosopher i takes fork i, then fork i + 1.
  static func philosophers(
    _ count: Int, states: Int? = nil, steps: Int? = nil
  ) throws -> SearchedModel {
    var searched = SearchedModel("\(count) philosophers, left fork first")
    searched.states = states
    searched.steps = steps
    let philosophers = (0..<count).map { _ in searched.model.addComponent(stateCount: 5) }
    let forks = (0..<count).map { _ in searched.model.addComponent(stateCount: 3) }
    for (place, philosopher) in philosophers.enumerated() {
      // A fork is free, held by the one at its place, or by the one before.
      let (own, next) = (forks[place], forks[(place + 1) % count])
      try searched.add((philosopher, 0, 1), (own, 0, 1))
      try searched.add((philosopher, 1, 2), (next, 0, 2))
      try searched.add((philosopher, 2, 3))
      try searched.add((philosopher, 3, 4), (own, 1, 0))
      try searched.add((philosopher, 4, 0), (next, 2, 0))
    }
    return searched
  }

  /// Relays in a ring, each of which takes a token of the pipe before it, holds it, and puts it into the next.
  /// - Parameter capacity: Of each pipe, of which every other one is full at the start.
  static func ring(_ count: Int, capacity: Int) throws -> SearchedModel {
    var searched = SearchedModel("a ring of \(count) relays, pipes of \(capacity)")
    let relays = (0..<count).map { _ in searched.model.addComponent(stateCount: 2) }
    let pipes = (0..<count).map { place in
      searched.model.addQueue(
        capacity: capacity,
        contents: place.isMultiple(of: 2) ? Array(repeating: 0, count: capacity) : [])
    }
    for (place, relay) in relays.enumerated() {
      _ = try searched.model.addVector([
        .table(relay, cells(from: 0, to: 1, of: 2)), .queue(pipes[place], .take(0)),
      ])
      _ = try searched.model.addVector([
        .table(relay, cells(from: 1, to: 0, of: 2)),
        .queue(pipes[(place + 1) % count], .append(0)),
      ])
    }
    return searched
  }

  /// Adds a step of some components, each from a local state to another one.
  private mutating func add(_ moves: (component: Int, from: Int, to: Int)...) throws {
    _ = try model.addVector(
      moves.map { move in
        .table(
          move.component,
          Self.cells(from: move.from, to: move.to, of: model.stateCount(of: move.component)))
      })
  }

  private static func cells(from: Int, to: Int, of count: Int) -> [ExplorationModel.Cell] {
    (0..<count).map { $0 == from ? .leads(to: to) : .blocked }
  }
}
