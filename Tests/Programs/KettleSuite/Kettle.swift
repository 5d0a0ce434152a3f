import Kettles
import PipeRuntime

/// A kettle of any style, in any environment.
package protocol Kettle: Sendable {
  /// The current state, followed by each new state.
  var states: StatePublisher<KettleState> { get }
  /// Switches the kettle on. Returns the state after the event, even if the kettle refused the
  /// event.
  func switchOn() async throws -> KettleState
  func switchOff() async throws -> KettleState
  /// Sends the same events without waiting. Events are applied in the order of the calls.
  func post(on: Bool)
}

/// An environment in which kettles run, with its own clock.
package protocol KettleEnvironment: Sendable {
  /// The time that a kettle takes to boil in tests that wait for it. Unit: milliseconds.
  var boilTime: Int { get }
  /// Whether time passes only during ``pass(_:of:heating:)``. If so, nothing can happen too early.
  var isExact: Bool { get }
  /// Creates a kettle that takes `boilTime` milliseconds to boil.
  func make(_ style: KettleStyle, boilTime: Int) async throws -> any Kettle
  var now: Duration { get }
  /// Lets time pass while a kettle heats.
  /// - Parameter left: The remaining time until the water boils.
  func pass(_ duration: Duration, of left: Duration, heating kettle: any Kettle) async throws
}

extension Kettle {
  /// Waits for a state.
  /// - Returns: Whether the state was reached.
  package func reaches(_ expected: KettleState) async -> Bool {
    for await state in states where state == expected { return true }
    return false
  }
}
