/// A model: an actor that is a state machine, whose state is read at once and whose changes can be
/// followed.
///
/// A model comes as three parts: a protocol with a function for each event, the model itself, and a
/// constant one for tests and previews (see ``StatePublisher/constant(_:)``).
///
/// ```swift
/// protocol LampModelProtocol: StateMachineProtocol<LampState> {
///   nonisolated func toggle()
/// }
/// ```
///
/// ``ModelMachine`` makes a node of one.
public protocol StateMachineProtocol<State>: Actor {
  /// The states.
  associatedtype State: StateProtocol

  /// The current state.
  nonisolated var state: State { get }

  /// The current state, then each state as it is entered.
  nonisolated var stateDidChange: StatePublisher<State> { get }
}
