import PipeRuntime

/// A machine whose feedback changes its state, which starts the feedback again, without end. Its
/// state is a struct with one field.
package enum Turner: Machine {
  package struct State: MachineState, Hashable {
    package struct Turns: Codable, Hashable, Sendable {
      package var count = 0
    }
    package var turns = Turns()
    package init() {}
  }

  package enum Event: MachineEvent {
    case turn
    case fail
  }

  private struct Unwilling: Error, CustomStringConvertible {
    let description = "it will not fail"
  }

  package struct Parameters: MachineParameters {
    /// Whether the feedback runs.
    package var spins = true
    /// Whether the feedback sends the event `fail`, which the machine refuses.
    package var fails = false
    package init() {}
  }

  package static func reducer(_ state: inout State, _ event: Event) throws {
    state.turns.count += 1
    if case .fail = event { throw Unwilling() }
  }

  package static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State(), reducer: reducer)
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    guard parameters.spins else { return Runtime() }
    return Runtime().feedback(
      Feedback(lensing: { $0.turns.count > 0 ? $0.turns : nil }) { _ in
        parameters.fails ? Event.fail : Event.turn
      })
  }
}
