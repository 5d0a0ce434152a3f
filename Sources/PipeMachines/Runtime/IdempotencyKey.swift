import PipeSupport

/// A key by which other services recognize repeated requests of an effect, so that they do the work
/// only once.
///
/// An effect that was running when its process died is run again, with the same key:
///
/// ```swift
/// func charge(amount: Int) async -> Event {
///   await bank.charge(amount, idempotencyKey: IdempotencyKey.current!.description)
///   return .charged
/// }
/// ```
public struct IdempotencyKey: Hashable, Sendable, CustomStringConvertible {
  /// The topology and the node, as in `elevator/door`, or `local` for a machine that no node hosts.
  public var node: String
  /// The number of the node's journal, or of the run if the node keeps no journal. A new journal or
  /// run has a new number.
  public var journal: UInt64
  /// The version of the step that started the effect.
  public var version: UInt64

  /// The number of the effect within the step: 0 for the effect of the output, or the number of a
  /// feedback in the runtime, counted from 1.
  public var feedback: Int

  /// The key as text: `elevator/door/5f3a…/17`, or with the number of a feedback
  /// `elevator/door/5f3a…/17.1`.
  public var description: String {
    "\(node)/\(String(journal, radix: 16))/\(version)" + (feedback > 0 ? ".\(feedback)" : "")
  }

  /// The key of the effect that the current task performs; `nil` outside of effects.
  public static var current: IdempotencyKey? { EffectRun.current?.key }

  /// The part that all keys of one machine share.
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
  /// The time that passed before the effect was run again, minus the time that its waits have used
  /// up.
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
        // An effect without a record may run within a recorded effect.
        guard let origin else { return await work() }
        await EffectOrigin.$recorded.withValue(origin) { await work() }
      }
    }
  }

  /// Returns the same run for concurrent work, which has waits of its own.
  func makeConcurrentRun() -> EffectRun {
    EffectRun(of: scope, key: key, elapsed: elapsed.withLock { $0 })
  }

  /// Whether some of the earlier time has not been used up by waits yet.
  var hasElapsed: Bool { elapsed.withLock { $0 > .zero } }

  /// Notes a wait until a moment. `left` is the time until that moment, or negative if the moment
  /// has passed. Earlier runs have waited at most since that moment for the work after it, so at
  /// most that time is subtracted from later waits.
  func capElapsed(after left: Duration) {
    elapsed.withLock { $0 = max(.zero, min($0, .zero - left)) }
  }

  /// Returns the remaining time to wait, and marks the subtracted time as used.
  func remaining(of duration: Duration) -> Duration {
    elapsed.withLock { elapsed in
      let used = max(.zero, min(elapsed, duration))
      elapsed -= used
      return duration - used
    }
  }
}
