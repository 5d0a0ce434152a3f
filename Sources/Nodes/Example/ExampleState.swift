import PipeRuntime

/// The states of the example model.
package enum ExampleState: MachineState, StateProtocol, Hashable {
  case state1(message: String)
  /// On the way to state 3.
  case state2(message: String)
  case state3(message: String)

  package var isStable: Bool {
    switch self {
    case .state1, .state3: true
    case .state2: false
    }
  }

  package var message: String {
    switch self {
    case .state1(let message), .state2(let message), .state3(let message): message
    }
  }
}
