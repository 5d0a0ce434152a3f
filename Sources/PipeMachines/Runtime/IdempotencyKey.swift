import PipeSupport

/// A key by which a service can recognize repeated requests of an effect, so that the service does
/// the work only once.
///
/// If a process dies while an effect is running, the effect is run again with the same key:
///
/// ```swift
/// func charge(amount: Int) async -> Event {
///   await bank.charge(amount, idempotencyKey: IdempotencyKey.current!.description)
///   return .charged
/// }
/// ```
public struct IdempotencyKey: Hashable, Sendable, CustomStringConvertible {
  /// The topology and the node, as in `elevator/door`; `local` for a machine outside of a node.
  public var node: String
  /// The number of the node's journal. If the node has no journal, the number of the run. A new
  /// journal or run has a new number.
  public var journal: UInt64
  /// The version of the step that started the effect.
  public var version: UInt64

  /// The number of the effect within the step: 0 for the effect of the output, or the number of a
  /// feedback in the runtime, counted from 1.
  public var feedback: Int

  /// The key as text: `elevator/door/5f3a…/17`. For a feedback, the text ends with the number of
  /// the feedback: `elevator/door/5f3a…/17.1`.
  public var description: String {
    "\(node)/\(String(journal, radix: 16))/\(version)" + (feedback > 0 ? ".\(feedback)" : "")
  }

  /// The key of the effect that the current task performs; `nil` outside of effects.
  public static var current: IdempotencyKey? { EffectRun.current?.key }

  /// The part of the key that is the same for all effects of one machine.
  package struct Scope: Sendable {
    package var node = "local"
    package var journal = UInt64.random(in: 1...UInt64(Int64.max))

    package init() {}

    package init(node: String, journal: UInt64) {
      self.node = node
      self.journal = journal
    }
  }

  init(scope: Scope, origin: EffectOrigin) {
    node = scope.node
    journal = scope.journal
    version = origin.version
    feedback = origin.feedback
  }
}

/// One run of an effect, or of an asynchronous transition.
final class EffectRun: Sendable {
  @TaskLocal static var current: EffectRun?

  /// The scope of the machine's run.
  let scope: RunScope
  /// The idempotency key; `nil` for a transition.
  let key: IdempotencyKey?
  /// Whether this is a transition whose step may be abandoned.
  let isTentative: Bool
  /// The time that passed before the effect was run again, minus the time that its waits have
  /// already subtracted.
  private let elapsed: Locked<Duration>

  init(
    of scope: RunScope, key: IdempotencyKey? = nil, elapsed: Duration = .zero,
    isTentative: Bool = false
  ) {
    self.scope = scope
    self.key = key
    self.isTentative = isTentative
    self.elapsed = Locked(elapsed)
  }

  /// Performs the work of the effect.
  /// - Parameter origin: The origin of the effect, if the effect is recorded.
  func perform(
    recordedAs origin: EffectOrigin?, _ clock: any Clock<Duration>,
    _ work: @Sendable () async -> Void
  ) async {
    await EffectClock.$current.withValue(clock) {
      await EffectRun.$current.withValue(self) {
        // Without an origin, the effect is not recorded. It may run within a recorded effect.
        guard let origin else { return await work() }
        await EffectOrigin.$recorded.withValue(origin) { await work() }
      }
    }
  }

  /// Returns a copy of this run for concurrent work. The waits of that work subtract the earlier
  /// time independently.
  func makeConcurrentRun() -> EffectRun {
    EffectRun(of: scope, key: key, elapsed: elapsed.withLock { $0 })
  }

  /// Whether some of the earlier time has not been subtracted from waits yet.
  var hasElapsed: Bool { elapsed.withLock { $0 > .zero } }

  /// Notes a wait until a deadline. `left` is the time until the deadline, or negative if the
  /// deadline has passed. In earlier runs, the work after this wait can have begun only at the
  /// deadline. So at most the time since the deadline is subtracted from later waits.
  func capElapsed(after left: Duration) {
    elapsed.withLock { $0 = max(.zero, min($0, .zero - left)) }
  }

  /// Returns the remaining time of a wait. The subtracted time is not subtracted again.
  func remaining(of duration: Duration) -> Duration {
    elapsed.withLock { elapsed in
      let used = max(.zero, min(elapsed, duration))
      elapsed -= used
      return duration - used
    }
  }
}
