import PipeRuntime

/// What the two models show together.
package enum ModelsState: CompositeState, Hashable {
  case inactive
  case stateA(message: String)
  case stateB(value: Int)
  case stateAB(message: String, value: Int)
  case failed

  package static let projection = Projection(ModelsState.init(modelA:modelB:))

  package init(modelA: ModelA.State, modelB: ModelB.State) {
    switch (modelA, modelB) {
    case (.inactive, .inactive): self = .inactive
    case (.active(let message), .inactive): self = .stateA(message: message)
    case (.inactive, .active(let value)): self = .stateB(value: value)
    case (.active(let message), .active(let value)):
      self = .stateAB(message: message, value: value)
    case (.failed, _), (_, .failed): self = .failed
    }
  }
}
