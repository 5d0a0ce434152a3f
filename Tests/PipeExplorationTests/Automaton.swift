import PipeExploration

/// One component of a known model: steps between local states, each with a label.
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

  /// The same steps, and another first state.
  init(_ other: Automaton, startingIn state: Int) {
    steps = other.steps
    stateCount = other.stateCount
    initial = state
  }

  /// For a label tables that together hold its steps, and each at most one step from each local state.
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

  /// The model, and the label of each of its vectors.
  func model() throws -> (model: ExplorationModel, labels: [String]) {
    var model = ExplorationModel()
    var labels: [String] = []
    for component in components {
      _ = model.addComponent(stateCount: component.stateCount, initial: component.initial)
    }
    for label in Set(components.flatMap { $0.steps.map(\.label) }).sorted() {
      var choices: [[ExplorationModel.Role]] = [[]]
      for (number, component) in components.enumerated() {
        let tables = component.tables(label)
        if tables.isEmpty { continue }
        choices = choices.flatMap { roles in tables.map { roles + [.table(number, $0)] } }
      }
      for roles in choices {
        _ = try model.addVector(roles)
        labels.append(label)
      }
    }
    return (model, labels)
  }
}
