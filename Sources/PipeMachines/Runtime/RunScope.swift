import PipeSupport

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

  /// Does the work of a transition.
  package func run<Result>(_ work: () async -> Result) async -> Result {
    await EffectRun.$current.withValue(EffectRun(of: self)) {
      await EffectClock.$current.withValue(clock, operation: work)
    }
  }
}
