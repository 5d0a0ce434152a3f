import PipeModelChecker

/// A component of a known model, with labeled steps between local states.
struct Automaton {
  struct Step: Hashable {
    let from: Int
    let label: String
    let to: Int

    init(_ from: Int, _ label: String, _ to: Int) {
      self.from = from
      self.label = label
      self.to = to
    }
  }

  let stateCount: Int
  let initial: Int
  let steps: [Step]

  init(_ steps: [Step], initial: Int = 0) {
    self.steps = steps
    self.initial = initial
    stateCount = (steps.flatMap { [$0.from, $0.to] }.max() ?? 0) + 1
  }

  /// Creates an automaton with the same steps and another first state.
  init(_ other: Automaton, startingIn state: Int) {
    steps = other.steps
    stateCount = other.stateCount
    initial = state
  }

  /// Returns tables that together hold a label's steps, each with at most one step from each local
  /// state.
  func tables(_ label: String) -> [[ExplorationModel.Cell]] {
    var tables: [[ExplorationModel.Cell]] = []
    for step in steps where step.label == label {
      let free = tables.firstIndex { $0[step.from] == .blocked }
      if free == nil { tables.append(Array(repeating: .blocked, count: stateCount)) }
      tables[free ?? tables.count - 1][step.from] = .leads(to: step.to)
    }
    return tables
  }
}

/// Automata that synchronize on the labels that they share.
struct Automata {
  var components: [Automaton]

  /// A vector: its label, and the target for each component that takes part.
  struct Choice {
    let label: String
    var tables: [Int: [ExplorationModel.Cell]] = [:]
  }

  /// For each label, every combination of the steps that its components have for it.
  var choices: [Choice] {
    Set(components.flatMap { $0.steps.map(\.label) }).sorted().flatMap { label in
      var choices = [Choice(label: label)]
      for (number, component) in components.enumerated() {
        let tables = component.tables(label)
        if tables.isEmpty { continue }
        choices = choices.flatMap { choice in
          tables.map { table in
            var choice = choice
            choice.tables[number] = table
            return choice
          }
        }
      }
      return choices
    }
  }

  /// Returns the model, and the label of each of its vectors.
  func model() throws -> (model: ExplorationModel, labels: [String]) {
    var model = ExplorationModel()
    for component in components {
      _ = model.addComponent(stateCount: component.stateCount, initial: component.initial)
    }
    let choices = choices
    for choice in choices {
      _ = try model.addVector(
        choice.tables.sorted { $0.key < $1.key }.map { .table($0.key, $0.value) })
    }
    return (model, choices.map(\.label))
  }

  /// Returns the model with the same vectors and no known cell.
  func emptyModel() throws -> ExplorationModel {
    var model = ExplorationModel()
    for component in components { _ = model.addComponent(initial: component.initial) }
    for choice in choices { _ = try model.addVector(choice.tables.map { .table($0.key, []) }) }
    return model
  }

  func cell(of component: Int, in state: Int, for vector: Int) -> ExplorationModel.Cell {
    choices[vector].tables[component]?[state] ?? .blocked
  }
}
