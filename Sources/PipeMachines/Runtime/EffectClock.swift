/// The time that effects go by: the real one, or in a test one that the test moves.
///
/// ```swift
/// func close(speed: Int) async -> Event {
///   try? await EffectClock.sleep(for: .seconds(1) / speed)
///   return .doorHasLocked
/// }
/// ```
public enum EffectClock {
  /// The clock of the task's effects: the one that was current where their machine was made.
  @TaskLocal package static var current: any Clock<Duration> = ContinuousClock()

  /// Suspends the effect for a time. An effect that is run again, because its process died, waits
  /// for what is left of it.
  /// - Parameter duration: How long; not at all, if it is not positive.
  /// - Throws: `CancellationError` as soon as the effect is cancelled.
  public static func sleep(for duration: Duration) async throws {
    try await current.sleep(for: EffectRun.current?.remaining(of: duration) ?? duration)
  }
}
