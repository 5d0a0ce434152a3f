import PipeRuntime

/// A washing machine's seven states, each left when its time is over.
package enum WashingMachine: Machine {
  package enum State: MachineState {
    case coldAndEmpty
    case fullWithHotWater
    case waterHeated
    case drumAgitating
    case pumping
    case fullWithColdWater
    case spinning
  }

  package enum Event: MachineEvent {
    case start
    case timeIsUp
  }

  package enum Output: MachineOutput {
    /// Ends after so many units of time.
    case wait(units: Int)
  }

  package struct Parameters: MachineParameters {
    /// One unit of time. Unit: milliseconds.
    package var unit = 500

    package init() {}

    package func validate() throws(ParameterProblem) {
      try require("unit", unit, atLeast: 0)
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.coldAndEmpty) {
      When(state: State.coldAndEmpty) {
        Execute.noOutput
      } transitions: {
        On(event: Event.start) { Transition(to: State.fullWithHotWater) }
      }

      for (state, units, next) in program {
        When(state: state) {
          Execute(output: Output.wait(units: units))
        } transitions: {
          On(event: Event.timeIsUp) { Transition(to: next) }
        }
      }
    }
  }

  /// Each state with its length and what follows.
  private static let program: [(State, units: Int, next: State)] = [
    (.fullWithHotWater, 1, .waterHeated),
    (.waterHeated, 2, .drumAgitating),
    (.drumAgitating, 4, .pumping),
    (.pumping, 1, .fullWithColdWater),
    (.fullWithColdWater, 2, .spinning),
    (.spinning, 3, .coldAndEmpty),
  ]

  package static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<
    State, Event, Output
  > {
    // One pipe for all: order is kept within a pipe, and none is promised between two.
    let progress: EventPipe<WasherPanel.Event> = ports.pipe("progress")
    var runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.wait(units:),
        to: { units in
          try? await Task.sleep(for: .milliseconds(parameters.unit * units))
          return Event.timeIsUp
        }, gives: .oneOf { Event.timeIsUp }
      )
      .connectAsSender(
        to: progress, when: State.coldAndEmpty, send: WasherPanel.Event.finished)
    for (index, step) in program.enumerated() {
      runtime = runtime.connectAsSender(
        to: progress, when: step.0, send: WasherPanel.Event.step(number: index + 1))
    }
    return runtime
  }
}
