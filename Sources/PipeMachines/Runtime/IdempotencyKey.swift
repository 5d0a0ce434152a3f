import PipeSupport

/// What an effect can tell others so that they do its work once, however often it is run.
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
  /// The topology and the node, as in `elevator/door`; `local` for a machine that no node hosts.
  public var node: String
  /// The node's journal, or the run where it keeps none: another one once it starts anew.
  public var journal: UInt64
  /// The version of the step that started the effect.
  public var version: UInt64

  /// Which effect of the step: 0 for that of the output, and for a feedback its place in the
  /// runtime, counted from 1.
  public var feedback: Int

  /// The key as text: `elevator/door/5f3a…/17`, and with a feedback's place `elevator/door/5f3a…/17.1`.
  public var description: String {
    "\(node)/\(String(journal, radix: 16))/\(version)" + (feedback > 0 ? ".\(feedback)" : "")
  }

  /// The key of the effect whose task this is; `nil` outside of effects.
  public static var current: IdempotencyKey? { EffectRun.current?.key }

  /// What the keys of one machine have in common.
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

/// One run of an effect, or of a transition that takes its time.
final class EffectRun: Sendable {
  @TaskLocal static var current: EffectRun?

  /// The run of the machine that it belongs to.
  let scope: RunScope
  /// `nil` of a transition.
  let key: IdempotencyKey?
  /// Whether it is a transition whose step may come to nothing.
  let isTentative: Bool
  /// What is left of the time that had passed already when it was run again.
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

  /// Does the work of the effect.
  /// - Parameter origin: The effect, where it is recorded.
  func perform(
    recordedAs origin: EffectOrigin?, _ clock: any Clock<Duration>,
    _ work: @Sendable () async -> Void
  ) async {
    await EffectClock.$current.withValue(clock) {
      await EffectRun.$current.withValue(self) {
        // What is not recorded may run within an effect that is.
        guard let origin else { return await work() }
        await EffectOrigin.$recorded.withValue(origin) { await work() }
      }
    }
  }

  /// The same run for work that goes on beside it, which has its own waits.
  func beside() -> EffectRun { EffectRun(of: scope, key: key, elapsed: elapsed.withLock { $0 }) }

  /// Whether time had passed already that was not yet waited for again.
  var hasElapsed: Bool { elapsed.withLock { $0 > .zero } }

  /// A wait for a moment begins, until which so much time is left, or since which so much has passed: earlier
  /// runs have waited since that moment for what comes after it.
  func keepElapsed(after left: Duration) {
    elapsed.withLock { $0 = max(.zero, min($0, .zero - left)) }
  }

  /// What is left to wait of a time.
  func remaining(of duration: Duration) -> Duration {
    elapsed.withLock { elapsed in
      let used = max(.zero, min(elapsed, duration))
      elapsed -= used
      return duration - used
    }
  }
}
