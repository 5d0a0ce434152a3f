import PipeRuntime

/// The kettle as a feature. A feedback waits until the water boils. `reduce` must not wait: while
/// `reduce` waits, the feature processes no other action, such as switching off.
package struct KettleFeature: FeatureType {
  package init() {}

  package func reduce(state: KettleState, action: KettleEvent) async -> KettleState {
    KettleReducer.reduce(state, action)
  }
}

/// The kettle feature as a node.
package enum KettleNode: FeatureMachine {
  package static func initialState(_ parameters: KettleParameters) -> KettleState { .off }
  package static func feature(_ parameters: KettleParameters) -> KettleFeature { KettleFeature() }

  package static func runtime(
    _ parameters: KettleParameters, _ ports: Ports
  ) -> Runtime<KettleState, KettleEvent, Never> { KettleReducer.runtime(parameters, ports) }
}
