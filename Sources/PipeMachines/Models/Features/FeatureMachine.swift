/// A feature as a machine, so that a node can host it; its actions are the events.
///
/// ```swift
/// enum Counter: FeatureMachine {
///   static let initialState = CounterFeature.State()
///   static func feature(_ parameters: NoParameters) -> CounterFeature { … }
/// }
/// ```
///
/// A child feature that runs as a node of its own tells its parent's node of its actions through a pipe:
///
/// ```swift
/// static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
///   Runtime().connectAsSender(to: ports.pipe("parent"), forEachEvent: ParentFeature.Action.child)
/// }
/// ```
public protocol FeatureMachine: Machine
where State == Feature.State, Event == Feature.Action, Output == Never {
  /// The feature.
  associatedtype Feature: FeatureType
  where Feature.State: MachineState, Feature.Action: MachineEvent

  /// The state of a node that has never run.
  static func initialState(_ parameters: Parameters) -> Feature.State

  /// Makes the feature with what it depends on.
  static func feature(_ parameters: Parameters) -> Feature
}

extension FeatureMachine {
  /// The feature as a function. Every action is taken; it may take its time, and the next one waits.
  public static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<Feature.State, Feature.Action, Never> {
    let feature = feature(parameters)
    return StateMachine(
      initial: initialState(parameters),
      awaiting: { state, action in await feature.reduce(state: state, action: action) })
  }
}
