import PipeRuntime
import Synchronization

/// A clock that stands still until a test moves it on: effects and timers run without waiting.
///
/// Sleepers wake in the order of their deadlines, those with one deadline in the order in which they
/// came. While it wakes one, the clock shows that one's deadline, and lets what it does come to rest
/// before it wakes the next: an effect that sleeps again does so from the right time.
///
/// ```swift
/// let clock = ManualClock()
/// await clock.waitForSleepers()
/// await clock.advance(by: .seconds(1))
/// ```
public final class ManualClock: Clock, Sendable {
  /// A time of the clock, counted from its start.
  public struct Instant: InstantProtocol, CustomStringConvertible {
    /// The time since the clock's start.
    public var offset: Duration

    /// Names a time by its distance from the clock's start.
    public init(offset: Duration = .zero) { self.offset = offset }

    /// A later time.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }

    /// The time between two.
    public func duration(to other: Instant) -> Duration { other.offset - offset }

    /// Whether one is earlier.
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }

    /// The time since the clock's start.
    public var description: String { "\(offset)" }
  }

  private struct Sleeper {
    let id: Int
    let deadline: Instant
    let continuation: CheckedContinuation<Bool, Never>
  }

  private struct Content {
    var now = Instant()
    /// By deadline, then in the order in which they came.
    var sleepers: [Sleeper] = []
    var lastID = 0
  }

  private let content = Watched(Content())

  /// Makes a clock that stands at zero.
  public init() {}

  /// The time it shows.
  public var now: Instant { content.value.now }

  /// Any time can be slept for.
  public var minimumResolution: Duration { .zero }

  /// The deadlines of those who sleep, in the order in which they will wake.
  public var sleepers: [Instant] { content.value.sleepers.map(\.deadline) }

  /// Sleeps until the clock is moved on to the deadline.
  /// - Throws: `CancellationError`, if the task is cancelled first.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let id = content.change { content in
      content.lastID += 1
      return content.lastID
    }
    let isWoken = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let answer = content.change { content -> Bool? in
          if Task.isCancelled { return false }
          if deadline <= content.now { return true }
          let sleeper = Sleeper(id: id, deadline: deadline, continuation: continuation)
          let index = content.sleepers.firstIndex { $0.deadline > deadline }
          content.sleepers.insert(sleeper, at: index ?? content.sleepers.endIndex)
          return nil
        }
        if let answer { continuation.resume(returning: answer) }
      }
    } onCancel: {
      content.change { content in
        content.sleepers.firstIndex { $0.id == id }.map { content.sleepers.remove(at: $0) }
      }?.continuation.resume(returning: false)
    }
    if !isWoken { throw CancellationError() }
  }
}

// Moving on.
extension ManualClock {
  /// Moves on by a duration, waking those whose deadlines come meanwhile.
  public func advance(by duration: Duration) async {
    await advance(to: now.advanced(by: duration))
  }

  /// Moves on to a time, waking those whose deadlines come meanwhile. It never goes back.
  public func advance(to time: Instant) async {
    await letAllRun()
    while wakeFirst(until: time) { await letAllRun() }
    content.change { $0.now = max($0.now, time) }
  }

  /// Moves on to the next deadline, and wakes the one who sleeps for it longest.
  /// - Returns: Whether anybody slept.
  @discardableResult
  public func advanceToNextDeadline() async -> Bool {
    await letAllRun()
    guard wakeFirst(until: nil) else { return false }
    await letAllRun()
    return true
  }

  /// Moves on from deadline to deadline until nobody sleeps.
  /// - Parameter limit: How often to wake somebody at most; a timer that always starts again would
  ///   keep the clock going for ever. Reaching it fails the test.
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
      the clock is not idle after it woke \(limit) sleepers: somebody sleeps until \(next)
        Use advance(by:) where a timer always starts again, or pass a higher 'limit:'.
      """, at: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Waits, in real time, until so many sleep.
  /// - Parameters:
  ///   - count: How many at least.
  ///   - limit: The longest time in which nothing moves; the test fails if it is not enough.
  public func waitForSleepers(
    _ count: Int = 1, within limit: Duration = .seconds(10), fileID: String = #fileID,
    filePath: StaticString = #filePath, line: UInt = #line, column: UInt = #column
  ) async {
    let waited = await content.first(within: limit) { $0.sleepers.count >= count ? true : nil }
    if waited?.value != nil { return }
    FailureReporter.fail(
      """
      \(sleepers.count) of \(count) sleep on the clock after \(limit.shortText)
        Look whether the effect is executed, and whether it sleeps on this clock.
      \(waited?.stall.map(\.indented) ?? "  The task was cancelled.")
      """, at: SourcePlace(fileID: fileID, filePath: filePath, line: line, column: column))
  }

  /// Wakes the first sleeper whose deadline is not after `time`.
  private func wakeFirst(until time: Instant?) -> Bool {
    let sleeper = content.change { content -> Sleeper? in
      guard let first = content.sleepers.first, time.map({ first.deadline <= $0 }) ?? true
      else { return nil }
      content.now = max(content.now, first.deadline)
      return content.sleepers.removeFirst()
    }
    sleeper?.continuation.resume(returning: true)
    return sleeper != nil
  }

  /// Lets all tasks that can run do so, until nobody has gone to sleep or woken for a while.
  ///
  /// A step of a machine takes several jobs one after the other: the effect's, the engine's, and
  /// that of the next effect.
  private func letAllRun() async {
    var seen = content.changes
    var quiet = 0
    for _ in 0..<1000 where quiet < 12 {
      guard await TaskPool.flush() else { continue }
      let changes = content.changes
      quiet = changes == seen ? quiet + 1 : 0
      seen = changes
    }
  }
}

/// Runs a test whose effects go by a clock that stands still until the test moves it on.
///
/// The effects of every machine that the body makes sleep on it, where they call
/// `EffectClock.sleep(for:)`.
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
