import PipeRuntime

/// The kettle as a feature. What it waits for is a feedback of its node, not of its `reduce`: an action
/// that waits would keep the next one, such as switching off, waiting.
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
