extension Trace {
  /// Returns the index of a step.
  /// - Parameter version: The version that the step gave to the node; `nil` for the first recorded
  ///   step of the node.
  package func index(ofStepOf node: String, version: UInt64?) -> Int? {
    steps.firstIndex { $0.node == node && (version == nil || $0.nodeStep.version == version) }
  }

  /// Returns a trace of one step: the step, its causes and its effects. If one of these steps
  /// belongs to a synchronized event, the trace also contains the steps of the other participants.
  package func following(_ start: Int) -> Trace {
    var children = Array(repeating: [Int](), count: steps.count)
    for (index, step) in steps.enumerated() {
      if let cause = step.causeIndex { children[cause].append(index) }
    }
    func group(of index: Int) -> [Int] {
      steps[index].synchronizedEventIndex.map { synchronizedEvents[$0].stepIndices } ?? [index]
    }
    func reached(_ next: (Int) -> [Int]) -> Set<Int> {
      var found = Set(group(of: start))
      var open = Array(found)
      while let index = open.popLast() {
        for other in next(index).flatMap(group) where found.insert(other).inserted {
          open.append(other)
        }
      }
      return found
    }
    let causes = reached { steps[$0].causeIndex.map { [$0] } ?? [] }
    let effects = reached { children[$0] }
    return selecting(causes.union(effects).sorted())
  }

  /// Returns a trace that has only some of the steps.
  /// - Parameter indices: The indices of these steps, in order.
  private func selecting(_ indices: [Int]) -> Trace {
    let positions = Dictionary(
      zip(indices, indices.indices), uniquingKeysWith: { one, _ in one })
    var selection = self
    selection.missingStepCounts = [:]
    selection.steps = indices.map { steps[$0] }
    selection.synchronizedEvents = []
    var groups: [Int: Int] = [:]
    for position in selection.steps.indices {
      let step = selection.steps[position]
      selection.steps[position].causeIndex = step.causeIndex.flatMap { positions[$0] }
      guard let former = step.synchronizedEventIndex else { continue }
      if groups[former] == nil {
        groups[former] = selection.synchronizedEvents.count
        var event = synchronizedEvents[former]
        event.stepIndices = event.stepIndices.compactMap { positions[$0] }
        selection.synchronizedEvents.append(event)
      }
      selection.steps[position].synchronizedEventIndex = groups[former]
    }
    return selection
  }
}
