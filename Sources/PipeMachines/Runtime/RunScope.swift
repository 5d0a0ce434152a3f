import PipeSupport

/// Work that a run shares and that must follow the state of the machine.
package protocol TentativeWork: Sendable {
  /// Applies the tentative result of a transition, because the step is taken.
  func keep()
  /// Discards the tentative result of a transition, because the step is not taken.
  func abandon()
  /// Moves to a state of the machine that no work of the run has produced.
  func restartWork(in state: any Sendable)
}

/// One run of a machine, as seen by the work within it: asynchronous transitions and effects. It
/// holds what they share, such as a model.
///
/// A machine and its runtime are two values, and either may be used for any number of runs.
package final class RunScope: Sendable {
  /// The run whose work the current task does; `nil` outside of a run.
  package static var current: RunScope? { EffectRun.current?.scope }

  private struct Content {
    var start: any Sendable
    var shared: [ObjectIdentifier: any Sendable] = [:]
    var isOver = false

    var tentative: [any TentativeWork] { shared.values.compactMap { $0 as? any TentativeWork } }
  }

  /// The clock of the work: the clock that was current where the run was made.
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

  /// Returns the shared value of this type. The first call makes it from the state in which the run
  /// starts.
  package func shared<Value: Sendable>(_ make: (_ start: any Sendable) -> Value) -> Value {
    content.withLock { content in
      let key = ObjectIdentifier(Value.self)
      if let known = content.shared[key] as? Value { return known }
      let value = make(content.start)
      if !content.isOver { content.shared[key] = value }
      return value
    }
  }

  /// Ends the run, and releases the shared values, which may have tasks that refer to the run.
  func end() {
    let shared = content.withLock { content in
      content.isOver = true
      defer { content.shared = [:] }
      return content.shared
    }
    // Released outside the lock, because that may end a model.
    withExtendedLifetime(shared) {}
  }

  /// Notes an intermediate state of the transition. If the step runs for several machines together,
  /// intermediate states are not shown.
  package func reportIntermediateState(through state: some Sendable) { pass(state) }

  /// Whether the current task does work of a step that may be abandoned.
  package static var isTentative: Bool { EffectRun.current?.isTentative == true }

  /// Performs the work of a transition.
  /// - Parameter isTentative: Whether the step is taken later, or not at all. A call of ``keep()``
  ///   follows, or of ``abandon()`` after the task was cancelled.
  package func run<Result>(
    isTentative: Bool = false, _ work: () async throws -> Result
  ) async rethrows -> Result {
    try await EffectRun.$current.withValue(EffectRun(of: self, isTentative: isTentative)) {
      try await EffectClock.$current.withValue(clock, operation: work)
    }
  }

  /// Applies the result of tentative work, because the step is taken.
  package func keep() {
    for work in content.withLock(\.tentative) { work.keep() }
  }

  /// Discards the result of tentative work: the machine keeps its state.
  package func abandon() {
    for work in content.withLock(\.tentative) { work.abandon() }
  }

  /// Moves to a state of the machine that no work of this run has produced. The shared work starts
  /// again from there.
  package func restartWork(in state: any Sendable) {
    let shared = content.withLock { content in
      content.start = state
      return content.tentative
    }
    for work in shared { work.restartWork(in: state) }
  }
}
