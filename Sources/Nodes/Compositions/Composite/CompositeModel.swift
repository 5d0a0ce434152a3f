import PipeRuntime

/// The two models as one: its state is made of theirs, and never of a moment in which one of them has
/// taken a synchronized event and the other not.
package actor CompositeModel: StateMachineProtocol {
  private let modelA: CompositeComponent<ModelA.State, ModelA.Event>
  private let modelB: CompositeComponent<ModelB.State, ModelB.Event>
  private nonisolated let both: AsyncCompositeSequence<(ModelA.State, ModelB.State)>

  package nonisolated var state: ModelsState { both.state(as: ModelsState.init(modelA:modelB:)) }

  package nonisolated var stateDidChange: StatePublisher<ModelsState> {
    StatePublisher { [both] in both.states(as: ModelsState.init(modelA:modelB:)) }
  }

  /// Starts both.
  package init() throws {
    modelA = CompositeComponent(
      "modelA", stateMachine: ModelMachine<ModelA>.stateMachine(NoParameters()))
    modelB = CompositeComponent(
      "modelB", stateMachine: ModelMachine<ModelB>.stateMachine(NoParameters()))
    both = try AsyncCompositeSequence("models", modelA, modelB, synchronize: ["eventX"])
  }

  /// Resets both, or none.
  package func synchronizedEvent() async throws -> SynchronizedReply {
    try await both.synchronizedEvent(ModelA.Event.eventX)
  }

  /// For the first model alone.
  package func eventForModelA(message: String) async throws {
    _ = try await both.send(.eventA(message: message), to: modelA)
  }

  /// For the second model alone.
  package func eventForModelB(value: Int) async throws {
    _ = try await both.send(.eventB(value: value), to: modelB)
  }
}
