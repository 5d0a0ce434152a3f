import PipeSupport

/// What the work of a run shares, where it goes with the state of the machine.
package protocol TentativeWork: Sendable {
  /// The step to which a transition has tentatively led is taken.
  func keep()
  /// It is not: where it has led is forgotten.
  func abandon()
  /// The machine stands in this state, to which no work of the run has led.
  func stand(in state: any Sendable)
}

/// One run of a machine, for the work that goes on within it: its transitions that take their time, and
/// its effects. What these share, such as a model, is here.
///
/// A machine and its runtime are two values, and either may be used for any number of runs.
package final class RunScope: Sendable {
  /// The run whose work the task does; `nil` outside of one.
  package static var current: RunScope? { EffectRun.current?.scope }

  private struct Content {
    var start: any Sendable
    var shared: [ObjectIdentifier: any Sendable] = [:]
    var isOver = false

    var tentative: [any TentativeWork] { shared.values.compactMap { $0 as? any TentativeWork } }
  }

  /// The clock of the work: the one that was current where the run was made.
  let clock = EffectClock.current
  private let content: Locked<Content>
  private let pass: @Sendable (any Sendable) -> Void

  /// - Parameters:
  ///   - start: The state that the run starts in.
  ///   - pass: Told of each state that a transition goes through on its way.
  init(start: any Sendable, pass: @escaping @Sendable (any Sendable) -> Void) {
    content = Locked(Content(start: start))
    self.pass = pass
  }

  /// The run goes on from a state in which an earlier one has ended; before any of its work begins.
  func restart(in state: any Sendable) { content.withLock { $0.start = state } }

  /// What the work of the run shares, one of each type; made, for whoever is first, of the state that the
  /// run starts in.
  package func shared<Value: Sendable>(_ make: (_ start: any Sendable) -> Value) -> Value {
    content.withLock { content in
      let key = ObjectIdentifier(Value.self)
      if let known = content.shared[key] as? Value { return known }
      let value = make(content.start)
      if !content.isOver { content.shared[key] = value }
      return value
    }
  }

  /// The run is over. Lets go of what is shared, which may have tasks that know of the run.
  func end() {
    let shared = content.withLock { content in
      content.isOver = true
      defer { content.shared = [:] }
      return content.shared
    }
    // Not under the lock: that may end a model.
    withExtendedLifetime(shared) {}
  }

  /// The transition goes through a state on its way to the one that it returns. Where it runs for several
  /// machines together, nothing is seen of that.
  package func passes(through state: some Sendable) { pass(state) }

  /// Whether the task does work of a step that may come to nothing.
  package static var isTentative: Bool { EffectRun.current?.isTentative == true }

  /// Does the work of a transition.
  /// - Parameter isTentative: Whether the step is taken later, or not at all: ``keep()`` follows, or
  ///   ``abandon()`` after the task was cancelled.
  package func run<Result>(
    isTentative: Bool = false, _ work: () async throws -> Result
  ) async rethrows -> Result {
    try await EffectRun.$current.withValue(EffectRun(of: self, isTentative: isTentative)) {
      try await EffectClock.$current.withValue(clock, operation: work)
    }
  }

  /// The step to which tentative work has led is taken.
  package func keep() {
    for work in content.withLock(\.tentative) { work.keep() }
  }

  /// It is not: the machine stands where it stood.
  package func abandon() {
    for work in content.withLock(\.tentative) { work.abandon() }
  }

  /// The machine stands in a state to which no work of this run has led: what the work shares begins there
  /// anew.
  package func stand(in state: any Sendable) {
    let shared = content.withLock { content in
      content.start = state
      return content.tentative
    }
    for work in shared { work.stand(in: state) }
  }
}
