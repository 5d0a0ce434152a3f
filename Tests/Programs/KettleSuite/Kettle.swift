import Kettles
import PipeRuntime

/// A kettle, however it is written, and wherever it runs.
package protocol Kettle: Sendable {
  /// The current state, then each that is entered.
  var states: StatePublisher<KettleState> { get }
  /// Both return the state that the event has led to, or that has not taken it.
  func switchOn() async throws -> KettleState
  func switchOff() async throws -> KettleState
  /// The same without waiting, in the order called.
  func post(on: Bool)
}

/// A place where kettles run, and its time.
package protocol KettlePlace: Sendable {
  /// How long a kettle that is to boil takes. Unit: milliseconds.
  var boilTime: Int { get }
  /// Whether time passes only where it is let pass, so that nothing happens before.
  var isExact: Bool { get }
  /// Makes a kettle that takes so many milliseconds to boil.
  func make(_ style: KettleStyle, boilTime: Int) async throws -> any Kettle
  var now: Duration { get }
  /// Lets time pass while a kettle heats.
  /// - Parameter left: How long it has to heat yet.
  func pass(_ duration: Duration, of left: Duration, heating kettle: any Kettle) async throws
}

extension Kettle {
  /// Waits until a state comes.
  /// - Returns: Whether it has.
  package func reaches(_ wanted: KettleState) async -> Bool {
    for await state in states where state == wanted { return true }
    return false
  }
}
