import PipeRuntime

/// Processes one event per step. Reports after the expected number of events.
enum Sink: Machine {
  enum State: MachineState, SynthesizedCodable {
    case ready
    case receiving(count: Int)
    case complete
  }

  enum Event: MachineEvent, SynthesizedCodable {
    case reading(sequence: Int, text: String)
    case tick
  }

  struct Parameters: MachineParameters {
    /// The number of events after which the machine reports.
    var count = 1_000_000
  }

  static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.ready) {
      When(
        states: OneOf {
          State.ready; State.complete
        }
      ) {
        Execute.noOutput
      } transitions: {
        On(event: Event.reading(sequence:text:)) { sequence, _ in
          Guard(predicate: sequence == Payload.firstSequence)
        } transition: { _, _ in
          Transition(to: State.receiving(count: 1))
        }
        On(event: Event.tick) { Transition(to: State.receiving(count: 1)) }
      }

      When(state: State.receiving(count:)) { _ in
        Execute.noOutput
      } transitions: { count in
        On(event: Event.reading(sequence:text:)) { sequence, _ in
          Guard(predicate: sequence == Payload.firstSequence + count)
        } transition: { _, _ in
          Transition(to: following(count, parameters))
        }
        On(event: Event.tick) { Transition(to: following(count, parameters)) }
      }
    }
  }

  private static func following(_ count: Int, _ parameters: Parameters) -> State {
    count + 1 == parameters.count ? .complete : .receiving(count: count + 1)
  }

  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }
}
