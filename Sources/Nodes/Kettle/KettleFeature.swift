import PipeRuntime

/// The kettle as a feature. Its node waits in a feedback, not in `reduce`: an action that waits
/// would delay the next action, such as switching off.
package struct KettleFeature: FeatureType {
  package init() {}

  package func reduce(state: KettleState, action: KettleEvent) async -> KettleState {
    KettleReducer.reduce(state, action)
  }
}

/// The feature as a node.
package enum KettleNode: FeatureMachine {
  package static func initialState(_ parameters: KettleParameters) -> KettleState { .off }
  package static func feature(_ parameters: KettleParameters) -> KettleFeature { KettleFeature() }

  package static func runtime(
    _ parameters: KettleParameters, _ ports: Ports
  ) -> Runtime<KettleState, KettleEvent, Never> { KettleReducer.runtime(parameters, ports) }
}
