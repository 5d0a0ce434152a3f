import PipeMachines
import PipeTopology

/// A condition on the state of a node or a composite. The search watches for states that meet the
/// condition.
struct StateWatch {
  enum WatchedOwner: Hashable {
    case node(Int)
    case composite(Int)
  }

  /// The number of the observation that contains this condition. An observation combines the
  /// conditions of several nodes or composites.
  let observation: Int
  let owner: WatchedOwner
  /// The condition; `nil` stands for the condition that an instance has ended or is not created.
  let condition: StateCondition?
}

extension TopologyModel {
  /// Adds an observation of a combination of states. Returns the number of the observation.
  func watch(_ combination: StateCombination) throws -> Int {
    var stateSets: [Int: Set<Int>] = [:]
    var addedConditions: [(owner: StateWatch.WatchedOwner, condition: StateCondition)] = []
    for (name, given) in combination.states {
      var condition = given
      let (owner, component, count): (StateWatch.WatchedOwner, Int, Int)
      if let place = node(named: name) {
        condition.fields = nodes[place].description?.stateFields?.map(\.name)
        (owner, component) = (.node(place), nodes[place].component)
        count = nodes[place].configurations.count
      } else if let place = composites.firstIndex(where: { $0.name == name }) {
        (owner, component) = (.composite(place), composites[place].component)
        count = composites[place].combinations.count
      } else {
        continue
      }
      addedConditions.append((owner, condition))
      stateSets[component] = Set((0..<count).filter { isMet(condition, by: $0, of: owner) })
    }
    let number = try model.addObservation(stateSets)
    stateWatches += addedConditions.map {
      StateWatch(observation: number, owner: $0.owner, condition: $0.condition)
    }
    return number
  }

  /// Adds an observation of the states in which every instance of a node with a `key` has ended or is
  /// not created, and all pipes are empty. Returns the number of the observation.
  func watchAbsentInstances() throws -> Int {
    var stateSets: [Int: Set<Int>] = [:]
    for pipe in pipes {
      if let empty = model.localState(of: pipe.component, holding: []) {
        stateSets[pipe.component] = [empty]
      }
    }
    let instances = nodes.indices.filter { nodes[$0].key != nil }
    for place in instances {
      stateSets[nodes[place].component] = Set(
        nodes[place].configurations.indices.filter(nodes[place].isAbsent))
    }
    let number = try model.addObservation(stateSets)
    stateWatches += instances.map {
      StateWatch(observation: number, owner: .node($0), condition: nil)
    }
    return number
  }

  /// Returns whether the combination has a composite whose state is unknown, because a node of the
  /// composite is listed under `any`.
  func isUnknown(_ combination: StateCombination) -> Bool {
    loaded.conflictClasses.flatMap(\.composites).contains { plan in
      combination.states[plan.name] != nil
        && plan.nodes.contains(where: section.unevaluatedNodes.contains)
    }
  }

  /// Adds a new local state (a configuration of a node, or a combination of a composite) to each
  /// observation with a condition that the local state meets.
  func updateObservations(
    for number: Int, of owner: StateWatch.WatchedOwner, in model: inout ExplorationModel
  ) {
    let component =
      switch owner {
      case .node(let place): nodes[place].component
      case .composite(let place): composites[place].component
      }
    for watch in stateWatches
    where watch.owner == owner && isMet(watch.condition, by: number, of: owner) {
      model.include(number, of: component, in: watch.observation)
    }
  }

  /// Returns whether a local state meets a condition. Records a finding if the state of a composite
  /// cannot be computed.
  private func isMet(
    _ condition: StateCondition?, by number: Int, of owner: StateWatch.WatchedOwner
  ) -> Bool {
    switch owner {
    case .node(let place):
      guard let condition else { return nodes[place].isAbsent(number) }
      return nodes[place].isCreated(number) && condition.matches(nodes[place].state(number))
    case .composite(let place):
      guard let condition else { return false }
      let composite = composites[place]
      do {
        let state = try composite.state(number) { nodes[$0].state($1) }
        return state.map(condition.matches) ?? false
      } catch {
        eventValues.note(.limit(.noAnswer(program: composite.name)))
        discover(
          .badAnswer(program: composite.name, problem: "\(error)"),
          at: ["composites", composite.name], nil, nil)
        return false
      }
    }
  }
}
