import PipeRuntime

/// A composite of ``ModelA`` and ``ModelB``, in one process. The composite's state never shows a
/// synchronized event that only one of the models has processed.
package actor CompositeModel: StateMachineProtocol {
  private let modelA: CompositeComponent<ModelA.State, ModelA.Event>
  private let modelB: CompositeComponent<ModelB.State, ModelB.Event>
  private nonisolated let composite: AsyncCompositeSequence<(ModelA.State, ModelB.State)>

  package nonisolated var state: ModelsState {
    composite.state(as: ModelsState.init(modelA:modelB:))
  }

  package nonisolated var stateDidChange: StatePublisher<ModelsState> {
    StatePublisher { [composite] in composite.states(as: ModelsState.init(modelA:modelB:)) }
  }

  /// Starts model A and model B.
  package init() throws {
    modelA = CompositeComponent(
      "modelA", stateMachine: ModelMachine<ModelA>.stateMachine(NoParameters()))
    modelB = CompositeComponent(
      "modelB", stateMachine: ModelMachine<ModelB>.stateMachine(NoParameters()))
    composite = try AsyncCompositeSequence("models", modelA, modelB, synchronize: ["eventX"])
  }

  /// Sends the synchronized event, which resets either both models or neither of them.
  package func synchronizedEvent() async throws -> SynchronizedReply {
    try await composite.synchronizedEvent(ModelA.Event.eventX)
  }

  /// Sends an event to model A only.
  package func eventForModelA(message: String) async throws {
    _ = try await composite.send(.eventA(message: message), to: modelA)
  }

  /// Sends an event to model B only.
  package func eventForModelB(value: Int) async throws {
    _ = try await composite.send(.eventB(value: value), to: modelB)
  }
}
