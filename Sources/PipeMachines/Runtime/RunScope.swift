import PipeSupport

/// Work that is shared within a run, and whose state must follow the state of the machine.
package protocol TentativeWork: Sendable {
  /// Applies the tentative result of a transition, because the step is taken.
  func keep()
  /// Discards the tentative result of a transition, because the step is not taken.
  func abandon()
  /// Continues in a state of the machine that this work has not produced.
  func restartWork(in state: any Sendable)
}

/// One run of a machine, for the work within the run: asynchronous transitions and effects. It
/// contains the values that they share, such as a model.
///
/// A machine and its runtime are only values, and may be used for any number of runs.
package final class RunScope: Sendable {
  /// The run that the current task works for; `nil` outside of a run.
  package static var current: RunScope? { EffectRun.current?.scope }

  private struct Content {
    var start: any Sendable
    var shared: [ObjectIdentifier: any Sendable] = [:]
    var isOver = false

    var tentative: [any TentativeWork] { shared.values.compactMap { $0 as? any TentativeWork } }
  }

  /// The clock of the work: the clock that was current when the run was made.
  let clock = EffectClock.current
  private let content: Locked<Content>
  private let pass: @Sendable (any Sendable) -> Void

  /// - Parameters:
  ///   - start: The state in which the run starts.
  ///   - pass: Called with each intermediate state of a transition.
  init(start: any Sendable, pass: @escaping @Sendable (any Sendable) -> Void) {
    content = Locked(Content(start: start))
    self.pass = pass
  }

  /// Continues from a state in which an earlier run ended. Called before any work of the run
  /// begins.
  func restart(in state: any Sendable) { content.withLock { $0.start = state } }

  /// Returns the shared value of type `Value`. The first call makes the value from the state in
  /// which the run starts.
  package func shared<Value: Sendable>(_ make: (_ start: any Sendable) -> Value) -> Value {
    content.withLock { content in
      let key = ObjectIdentifier(Value.self)
      if let known = content.shared[key] as? Value { return known }
      let value = make(content.start)
      if !content.isOver { content.shared[key] = value }
      return value
    }
  }

  /// Ends the run, and releases the shared values. Their tasks may still refer to the run.
  func end() {
    let shared = content.withLock { content in
      content.isOver = true
      defer { content.shared = [:] }
      return content.shared
    }
    // Released outside the lock, because the release may end a model.
    withExtendedLifetime(shared) {}
  }

  /// Reports an intermediate state of the transition. In a step that several machines take
  /// together, intermediate states are not published.
  package func reportIntermediateState(through state: some Sendable) { pass(state) }

  /// Whether the current task works on a step that may be abandoned.
  package static var isTentative: Bool { EffectRun.current?.isTentative == true }

  /// Performs the work of a transition.
  /// - Parameter isTentative: Whether the step may be abandoned. Afterwards, the caller calls
  ///   either ``keep()``, or ``abandon()`` if it has cancelled the task.
  package func run<Result>(
    isTentative: Bool = false, _ work: () async throws -> Result
  ) async rethrows -> Result {
    try await EffectRun.$current.withValue(EffectRun(of: self, isTentative: isTentative)) {
      try await EffectClock.$current.withValue(clock, operation: work)
    }
  }

  /// Applies the result of tentative work, because the machine takes the step.
  package func keep() {
    for work in content.withLock(\.tentative) { work.keep() }
  }

  /// Discards the result of tentative work: the machine keeps its state.
  package func abandon() {
    for work in content.withLock(\.tentative) { work.abandon() }
  }

  /// Continues in a state of the machine that no work of this run has produced. The shared work
  /// starts again from that state.
  package func restartWork(in state: any Sendable) {
    let shared = content.withLock { content in
      content.start = state
      return content.tentative
    }
    for work in shared { work.restartWork(in: state) }
  }
}
