import PipeSupport

/// The states that a model goes through, until its machine has been told of them.
///
/// A state that is not stable is told of at once. A stable one waits for the next: it may be where the
/// step ends.
final class ModelPassage<State: StateProtocol & Equatable>: Sendable {
  private struct Content {
    /// The last one seen; `nil` before the first, in which the model starts.
    var last: State?
    /// Those that the machine was not told of.
    var waiting: [State] = []
    /// Tells the machine, while it takes a step.
    var tell: (@Sendable (State) -> Void)?

    mutating func tellPassed() {
      guard let tell, let last = waiting.last else { return }
      for state in waiting.dropLast() { tell(state) }
      waiting.removeAll(keepingCapacity: true)
      if last.isStable { waiting.append(last) } else { tell(last) }
    }
  }

  private let content = Locked(Content())
  /// States that may wait for a step. Unit: states.
  private static var capacity: Int { 1_024 }

  /// The model has entered a state.
  func enter(_ state: State) {
    content.withLock { content in
      let last = content.last
      content.last = state
      guard let last, last != state else { return }
      content.waiting.append(state)
      if content.tell != nil {
        content.tellPassed()
      } else if content.waiting.count > Self.capacity {
        content.waiting.removeFirst()
      }
    }
  }

  /// The machine takes a step, to which belongs what the model has gone through since the last one.
  func begin(_ tell: @escaping @Sendable (State) -> Void) {
    content.withLock { content in
      content.tell = tell
      content.tellPassed()
    }
  }

  /// The machine takes a step to a state that the model has been in: what the model went through before
  /// that belongs to the step, and what came after it to later ones.
  func pass(through state: State, _ tell: (@Sendable (State) -> Void)?) {
    content.withLock { content in
      guard let index = content.waiting.firstIndex(of: state) else { return }
      if let tell { for state in content.waiting[..<index] { tell(state) } }
      content.waiting.removeSubrange(...index)
    }
  }

  /// The model is of no use any more: what it still goes through belongs to no step.
  func close() {
    content.withLock { content in
      content.tell = nil
      content.waiting = []
    }
  }

  /// The step ends in a state, where that is the last one seen.
  /// - Parameter isLate: Whether it ends there also where the model's publisher has not told of it yet.
  /// - Returns: Whether it has ended.
  func end(in state: State, isLate: Bool) -> Bool {
    content.withLock { content in
      guard isLate || content.last == state else { return false }
      if content.waiting.last == state { content.waiting.removeLast() }
      if let tell = content.tell { for state in content.waiting { tell(state) } }
      content.waiting.removeAll(keepingCapacity: true)
      content.tell = nil
      return true
    }
  }
}
