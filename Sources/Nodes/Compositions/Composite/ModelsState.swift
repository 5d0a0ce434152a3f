import PipeRuntime

/// The combined state of model A and model B.
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

/// A view of the composite of model A and model B. The key a sends an event to model A, the key b
/// sends an event to model B, and the key x sends the synchronized event.
package enum ModelsView: TerminalView {
  /// The events that the composite accepts: an event for model A only, an event for model B only,
  /// and the synchronized event.
  package enum Event: MachineEvent, Hashable {
    case eventA(message: String)
    case eventB(value: Int)
    case eventX
  }

  package static let minimumSize = TerminalSize(columns: 30, rows: 4)

  package static func body(_ state: ModelsState, size: TerminalSize) -> [StyledLine] {
    let (first, second): (String?, Int?) =
      switch state {
      case .inactive, .failed: (nil, nil)
      case .stateA(let message): (message, nil)
      case .stateB(let value): (nil, value)
      case .stateAB(let message, let value): (message, value)
      }
    if state == .failed {
      return [
        StyledLine("a model has failed", .bold, .color(.red)), "", "",
        StyledLine("x resets both", .dim),
      ]
    }
    return [
      "A  " + part(first), "B  " + part(second.map(String.init)), "",
      StyledLine("a, b start one, x resets both", .dim),
    ]
  }

  private static func part(_ value: String?) -> StyledLine {
    value.map { StyledLine($0, .bold, .color(.green)) } ?? StyledLine("inactive", .dim)
  }

  package static func event(for key: Key, in state: ModelsState) -> Event? {
    switch key {
    case .character("a"): .eventA(message: "hello")
    case .character("b"): .eventB(value: 7)
    case .character("x"): .eventX
    default: nil
    }
  }
}
