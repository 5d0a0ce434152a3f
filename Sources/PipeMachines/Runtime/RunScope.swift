import PipeSupport

/// Work that a run shares between its steps, such as a model. The state of this work must follow
/// the state of the machine.
package protocol TentativeWork: Sendable {
  /// Applies the tentative result of a transition, because the step is taken.
  func keep()
  /// Discards the tentative result of a transition, because the step is not taken.
  func abandon()
  /// Starts the work again from `state`. The machine has reached this state without the work.
  func restartWork(in state: any Sendable)
}

/// The part of a machine's run that asynchronous transitions and effects can access. The scope
/// contains the values that the transitions and effects share, such as a model.
///
/// A machine and its runtime can be used for any number of runs. So they cannot contain a value
/// that belongs to one run.
package final class RunScope: Sendable {
  /// The run that the current task works for; `nil` outside of a run.
  package static var current: RunScope? { EffectRun.current?.scope }

  private struct Content {
    var startState: any Sendable
    var sharedValues: [ObjectIdentifier: any Sendable] = [:]
    var isOver = false

    var tentativeWork: [any TentativeWork] {
      sharedValues.values.compactMap { $0 as? any TentativeWork }
    }
  }

  /// The clock of the work: the clock that was current when the run was made.
  let clock = EffectClock.current
  private let content: Locked<Content>
  private let reportState: @Sendable (any Sendable) -> Void

  /// Creates the scope of a new run.
  /// - Parameters:
  ///   - start: The state in which the run starts.
  ///   - pass: Called with each intermediate state of a transition.
  init(start: any Sendable, pass: @escaping @Sendable (any Sendable) -> Void) {
    content = Locked(Content(startState: start))
    self.reportState = pass
  }

  /// Continues from a state in which an earlier run ended. Called before any work of the run
  /// begins.
  func restart(in state: any Sendable) { content.withLock { $0.startState = state } }

  /// Returns the shared value of type `Value`. The first call makes the value from the state in
  /// which the run starts.
  package func shared<Value: Sendable>(_ make: (_ start: any Sendable) -> Value) -> Value {
    content.withLock { content in
      let key = ObjectIdentifier(Value.self)
      if let known = content.sharedValues[key] as? Value { return known }
      let value = make(content.startState)
      if !content.isOver { content.sharedValues[key] = value }
      return value
    }
  }

  /// Ends the run, and releases the shared values. The tasks of these values may still refer to the
  /// run.
  func end() {
    let shared = content.withLock { content in
      content.isOver = true
      defer { content.sharedValues = [:] }
      return content.sharedValues
    }
    // Released outside the lock, because the release may end a model.
    withExtendedLifetime(shared) {}
  }

  /// Reports an intermediate state of the transition. The machine does not publish the state if
  /// several machines take the step together.
  package func reportIntermediateState(through state: some Sendable) { reportState(state) }

  /// Whether the step of the current task may be abandoned.
  package static var isTentative: Bool { EffectRun.current?.isTentative == true }

  /// Performs the work of a transition.
  /// - Parameter isTentative: Whether the step may be abandoned. If so, the caller must call
  ///   ``keep()``, or cancel the task and call ``abandon()``.
  package func run<Result>(
    isTentative: Bool = false, _ work: () async throws -> Result
  ) async rethrows -> Result {
    try await EffectRun.$current.withValue(EffectRun(of: self, isTentative: isTentative)) {
      try await EffectClock.$current.withValue(clock, operation: work)
    }
  }

  /// Applies the result of tentative work, because the machine takes the step.
  package func keep() {
    for work in content.withLock(\.tentativeWork) { work.keep() }
  }

  /// Discards the result of tentative work: the machine keeps its state.
  package func abandon() {
    for work in content.withLock(\.tentativeWork) { work.abandon() }
  }

  /// Starts the shared work again from `state`. The machine has reached this state without any work
  /// of this run.
  package func restartWork(in state: any Sendable) {
    let shared = content.withLock { content in
      content.startState = state
      return content.tentativeWork
    }
    for work in shared { work.restartWork(in: state) }
  }
}
