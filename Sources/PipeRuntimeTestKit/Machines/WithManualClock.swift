import PipeRuntime

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
