import PipeMachines
import PipeTopology

/// A state of a node or a composite that the search watches for.
struct StateWatch {
  enum WatchedOwner: Hashable {
    case node(Int)
    case composite(Int)
  }

  /// The observation that the watched state belongs to.
  let observation: Int
  let holder: WatchedOwner
  let condition: StateCondition
}

extension TopologyModel {
  /// Watches for a combination of states; returns the number of the observation.
  func watch(_ combination: StateCombination) throws -> Int {
    var sets: [Int: Set<Int>] = [:]
    var added: [(holder: StateWatch.WatchedOwner, condition: StateCondition)] = []
    for (name, given) in combination.states {
      var condition = given
      let (holder, component, count): (StateWatch.WatchedOwner, Int, Int)
      if let place = node(named: name) {
        condition.fields = nodes[place].description?.stateFields?.map(\.name)
        (holder, component) = (.node(place), nodes[place].component)
        count = nodes[place].configurations.count
      } else if let place = composites.firstIndex(where: { $0.name == name }) {
        (holder, component) = (.composite(place), composites[place].component)
        count = composites[place].combinations.count
      } else {
        continue
      }
      added.append((holder, condition))
      sets[component] = Set((0..<count).filter { isMet(condition, by: $0, of: holder) })
    }
    let number = try model.addObservation(sets)
    watches += added.map {
      StateWatch(observation: number, holder: $0.holder, condition: $0.condition)
    }
    return number
  }

  /// Returns whether a combination names a composite with a node under `any`, so that the
  /// composite's state is unknown.
  func isUnknown(_ combination: StateCombination) -> Bool {
    loaded.conflictClasses.flatMap(\.composites).contains { plan in
      combination.states[plan.name] != nil && plan.nodes.contains(where: section.any.contains)
    }
  }

  /// Adds a new local state to the observations that it belongs to.
  func updateObservations(
    for number: Int, of holder: StateWatch.WatchedOwner, in model: inout ExplorationModel
  ) {
    let component =
      switch holder {
      case .node(let place): nodes[place].component
      case .composite(let place): composites[place].component
      }
    for watch in watches
    where watch.holder == holder && isMet(watch.condition, by: number, of: holder) {
      model.include(number, of: component, in: watch.observation)
    }
  }

  /// Returns whether a local state meets a watched condition; reports a composite that has no state
  /// there.
  private func isMet(
    _ condition: StateCondition, by number: Int, of holder: StateWatch.WatchedOwner
  ) -> Bool {
    switch holder {
    case .node(let place): return condition.matches(nodes[place].state(number))
    case .composite(let place):
      let composite = composites[place]
      do {
        let state = try composite.state(number) { nodes[$0].state($1) }
        return state.map(condition.matches) ?? false
      } catch {
        values.note(.limit(.noAnswer(program: composite.name)))
        discover(
          .badAnswer(program: composite.name, problem: "\(error)"),
          at: ["composites", composite.name], nil, nil)
        return false
      }
    }
  }
}
