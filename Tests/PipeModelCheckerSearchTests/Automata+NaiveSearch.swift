/// The result of a search that shares no code with the engine.
struct NaiveAnswer: Equatable {
  var states: Set<[Int]> = []
  var stepCount = 0
  /// Each state without a step, with the number of steps on a shortest path to it.
  var deadlocks: [[Int]: Int] = [:]
  var labels: Set<String> = []
}

extension Automata {
  /// Returns the steps from a state, with their labels and targets.
  func steps(from state: [Int]) -> [(label: String, target: [Int])] {
    var found: [(String, [Int])] = []
    for label in Set(components.flatMap { $0.steps.map(\.label) }).sorted() {
      var targets = [state]
      for (number, component) in components.enumerated() {
        let steps = component.steps.filter { $0.label == label }
        if steps.isEmpty { continue }
        targets = targets.flatMap { target in
          steps.filter { $0.from == state[number] }.map { step in
            var target = target
            target[number] = step.to
            return target
          }
        }
      }
      found += targets.map { (label, $0) }
    }
    return found
  }

  /// Returns the number of steps on a shortest path to a goal, or `nil` if there is none.
  func distance(to isGoal: ([Int]) -> Bool) -> Int? {
    var level: Set = [components.map(\.initial)]
    var met = level
    var depth = 0
    while !level.isEmpty {
      if level.contains(where: isGoal) { return depth }
      level = Set(level.flatMap { steps(from: $0).map(\.target) }).subtracting(met)
      met.formUnion(level)
      depth += 1
    }
    return nil
  }

  /// Follows every step, breadth first.
  func searchNaively() -> NaiveAnswer {
    var answer = NaiveAnswer()
    var level = [components.map(\.initial)]
    answer.states = Set(level)
    var depth = 0
    while !level.isEmpty {
      var next: [[Int]] = []
      for state in level {
        let steps = steps(from: state)
        answer.stepCount += steps.count
        if steps.isEmpty { answer.deadlocks[state] = depth }
        for (label, target) in steps {
          answer.labels.insert(label)
          if answer.states.insert(target).inserted { next.append(target) }
        }
      }
      level = next
      depth += 1
    }
    return answer
  }
}
