import PipeSupport

/// A key by which a service can recognize an effect's repeated request, so that the service does
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

  /// The number of the effect within the step. The number is 0 for the effect of the output. For a
  /// feedback, it is the number of the feedback in the runtime, counted from 1.
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
  /// Whether this object is a run of a transition whose step may be abandoned.
  let isTentative: Bool
  /// The part of the time in earlier runs of the effect that no wait of this run has subtracted
  /// yet.
  private let elapsedTime: Locked<Duration>

  init(
    of scope: RunScope, key: IdempotencyKey? = nil, elapsed: Duration = .zero,
    isTentative: Bool = false
  ) {
    self.scope = scope
    self.key = key
    self.isTentative = isTentative
    self.elapsedTime = Locked(elapsed)
  }

  /// Performs the work of the effect.
  /// - Parameter origin: The origin of the effect, if the effect is recorded.
  func perform(
    recordedAs origin: EffectOrigin?, _ clock: any Clock<Duration>,
    _ work: @Sendable () async -> Void
  ) async {
    await EffectClock.$current.withValue(clock) {
      await EffectRun.$current.withValue(self) {
        // An effect without an origin is not recorded. If such an effect runs inside a recorded
        // effect, the origin of the recorded effect stays current.
        guard let origin else { return await work() }
        await EffectOrigin.$recorded.withValue(origin) { await work() }
      }
    }
  }

  /// Returns a copy of this run for concurrent work. The copy has its own elapsed time: a wait of
  /// the copy and a wait of this run can subtract the same time.
  func makeConcurrentRun() -> EffectRun {
    EffectRun(of: scope, key: key, elapsed: elapsedTime.withLock { $0 })
  }

  /// Whether there is time from earlier runs that no wait has subtracted yet.
  var hasElapsed: Bool { elapsedTime.withLock { $0 > .zero } }

  /// Limits the elapsed time to the time since a deadline that the effect waits for. In an earlier
  /// run, the work after this wait cannot have begun before the deadline. So the waits that follow
  /// must not subtract more than the time since the deadline.
  /// - Parameter left: The time until the deadline; negative if the deadline has passed.
  func capElapsed(after left: Duration) {
    elapsedTime.withLock { $0 = max(.zero, min($0, .zero - left)) }
  }

  /// Returns the remaining time of a wait: the duration minus the time that passed in earlier runs.
  /// Later waits do not subtract the same time again.
  func remainingDuration(of duration: Duration) -> Duration {
    elapsedTime.withLock { elapsed in
      let used = max(.zero, min(elapsed, duration))
      elapsed -= used
      return duration - used
    }
  }
}
