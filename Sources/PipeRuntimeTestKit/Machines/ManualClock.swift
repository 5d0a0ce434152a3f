import PipeRuntime
import Synchronization

/// A clock that advances only when the test advances it. Effects and timers on this clock run
/// without real waiting.
///
/// Sleepers are tasks that sleep on this clock. They wake in the order of their deadlines; with
/// equal deadlines, in the order in which they began to sleep. When a sleeper wakes, the clock
/// shows the sleeper's deadline. The clock wakes the next sleeper only after the woken task is
/// suspended again. So if an effect sleeps several times in sequence, each sleep ends at the right
/// time.
///
/// ```swift
/// let clock = ManualClock()
/// await clock.waitForSleepers()
/// await clock.advance(by: .seconds(1))
/// ```
public final class ManualClock: Clock, Sendable {
  /// A time of the clock, relative to the clock's start.
  public struct Instant: InstantProtocol, CustomStringConvertible {
    /// The time since the clock's start.
    public var offset: Duration

    /// Creates a time from its distance to the clock's start.
    public init(offset: Duration = .zero) { self.offset = offset }

    /// Returns a later time.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

    /// Returns the duration from this time to another time.
    public func duration(to other: Instant) -> Duration { other.offset - offset }

    /// Returns whether the left time is earlier.
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }

    /// The time since the clock's start.
    public var description: String { "\(offset)" }
  }

  private struct Sleeper {
    let id: Int
    let deadline: Instant
    let continuation: CheckedContinuation<Bool, Never>
  }

  private struct ClockState {
    var now = Instant()
    /// The sleepers, sorted by deadline, and then by the order in which they began to sleep.
    var sleepers: [Sleeper] = []
    var lastID = 0
  }

  private let clockState = ObservedValue(ClockState())

  /// Creates a clock at time zero.
  public init() {}

  /// The current time of the clock.
  public var now: Instant { clockState.value.now }

  /// The resolution, which is zero because the clock is exact.
  public var minimumResolution: Duration { .zero }

  /// The deadlines of the sleepers, in the order in which they will wake.
  public var sleepers: [Instant] { clockState.value.sleepers.map(\.deadline) }

  /// Sleeps until the clock reaches a deadline.
  /// - Throws: `CancellationError` if the task is cancelled first.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let id = clockState.change { clockState in
      clockState.lastID += 1
      return clockState.lastID
    }
    let isWoken = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let immediateResult = clockState.change { clockState -> Bool? in
          if Task.isCancelled { return false }
          if deadline <= clockState.now { return true }
          let sleeper = Sleeper(id: id, deadline: deadline, continuation: continuation)
          let index = clockState.sleepers.firstIndex { $0.deadline > deadline }
          clockState.sleepers.insert(sleeper, at: index ?? clockState.sleepers.endIndex)
          return nil
        }
        if let immediateResult { continuation.resume(returning: immediateResult) }
      }
    } onCancel: {
      clockState.change { clockState in
        clockState.sleepers.firstIndex { $0.id == id }.map { clockState.sleepers.remove(at: $0) }
      }?.continuation.resume(returning: false)
    }
    if !isWoken { throw CancellationError() }
  }
}

// The methods with which a test advances the clock.
extension ManualClock {
  /// Advances by a duration, and wakes the sleepers whose deadlines the clock reaches.
  public func advance(by duration: Duration) async {
    await advance(to: now.advanced(by: duration))
  }

  /// Advances to a time, and wakes the sleepers whose deadlines the clock reaches. If the time is
  /// in the past, the clock does not change.
  public func advance(to time: Instant) async {
    await runPendingTasks()
    while wakeFirst(until: time) { await runPendingTasks() }
    clockState.change { $0.now = max($0.now, time) }
  }

  /// Advances the clock to the next deadline, and wakes one sleeper: the first sleeper with this
  /// deadline.
  /// - Returns: Whether there was a sleeper.
  @discardableResult
  public func advanceToNextDeadline() async -> Bool {
    await runPendingTasks()
    guard wakeFirst(until: nil) else { return false }
    await runPendingTasks()
    return true
  }

  /// Advances the clock from deadline to deadline until no task sleeps on it.
  /// - Parameter limit: The maximum number of wake-ups. When this number is reached, the test
  ///   fails. Without a limit, this method would never return if a timer restarts whenever it
  ///   fires.
  public func runUntilIdle(
    limit: Int = 10_000, fileID: String = #fileID, filePath: StaticString = #filePath,
    line: UInt = #line, column: UInt = #column
  ) async {
    for _ in 0..<limit {
      guard await advanceToNextDeadline() else { return }
    }
    guard let next = sleepers.first else { return }
    FailureReporter.fail(
      """
      the clock is not idle after it woke \(limit) sleepers: a task sleeps until \(next)
        Use advance(by:) where a timer always starts again, or pass a higher 'limit:'.
      """, at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Waits in real time until at least `count` tasks sleep on the clock.
  /// - Parameters:
  ///   - count: The minimum number of sleepers.
  ///   - limit: The maximum time without progress of the process. If this time passes, the test
  ///     fails.
  public func waitForSleepers(
    _ count: Int = 1, within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) async {
    let waitResult = await clockState.firstResult(within: limit) {
      $0.sleepers.count >= count ? true : nil
    }
    if waitResult?.value != nil { return }
    FailureReporter.fail(
      """
      \(sleepers.count) of \(count) tasks sleep on the clock after \(limit.shortText)
        Check that the effect is executed, and that it sleeps on this clock.
      \(waitResult?.stall.map(\.indented) ?? "  The task was cancelled.")
      """, at: AssertionLocation(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Wakes the first sleeper, and advances the clock to the sleeper's deadline. Does nothing if
  /// this deadline is later than `time`. Returns whether a sleeper was woken.
  private func wakeFirst(until time: Instant?) -> Bool {
    let sleeper = clockState.change { clockState -> Sleeper? in
      guard let first = clockState.sleepers.first, time.map({ first.deadline <= $0 }) ?? true
      else { return nil }
      clockState.now = max(clockState.now, first.deadline)
      return clockState.sleepers.removeFirst()
    }
    sleeper?.continuation.resume(returning: true)
    return sleeper != nil
  }

  /// Runs the ready tasks, round by round. Ends after several rounds in which no task has begun to
  /// sleep, and no sleeper has woken.
  ///
  /// A single round is not enough for a step of a machine. A step consists of several jobs, each of
  /// which makes the next job ready: a job of the effect, of the engine, and of the next effect.
  private func runPendingTasks() async {
    var seen = clockState.changeCount
    var quietRounds = 0
    for _ in 0..<1000 where quietRounds < 12 {
      guard await TaskPool.flush() else { continue }
      let changes = clockState.changeCount
      quietRounds = changes == seen ? quietRounds + 1 : 0
      seen = changes
    }
  }
}

/// Runs a test with a manual clock.
///
/// `EffectClock.sleep(for:)` uses this clock in the effects of all machines that the body creates.
///
/// ```swift
/// await withManualClock { clock in
///   let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
///   await door.send(.closeButtonWasPressed)
///   await clock.waitForSleepers()
///   await clock.advance(by: .seconds(5))
/// }
/// ```
public func withManualClock<Result>(
  isolation: isolated (any Actor)? = #isolation,
  _ body: (ManualClock) async throws -> Result
) async rethrows -> Result {
  let clock = ManualClock()
  return try await EffectClock.$current.withValue(clock) { try await body(clock) }
}
