import PipeRuntime

/// A washing machine with seven states. Each state lasts for a fixed time.
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
    /// Waits for a number of time units.
    case wait(units: Int)
  }

  package struct Parameters: MachineParameters {
    /// The length of one time unit. Unit: milliseconds.
    package var unit = 500

    package init() {}

    package func validate() throws(ParameterMismatch) {
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

  /// The steps of a washing program. Each step is a state, its duration, and the next state.
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
    // A single pipe carries both kinds of events, because the order of events is guaranteed within
    // a pipe, but not between two pipes.
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

/// The panel of a washing machine. It shows the current step and the number of finished programs.
package enum WasherPanel: Machine {
  package enum State: MachineState {
    case showing(step: Int, finished: Int)
  }

  package enum Event: MachineEvent {
    case step(number: Int)
    case finished
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.showing(step: 0, finished: 0)) {
      When(state: State.showing(step:finished:)) { _, _ in
        Execute.noOutput
      } transitions: { step, finished in
        On(event: Event.step(number:)) { number in
          Stay { State.showing(step: number, finished: finished) }
        }

        On(event: Event.finished) {
          Guard(predicate: step > 0)
        } transition: {
          Stay { State.showing(step: 0, finished: finished + 1) }
        }
        // A washer that has just started is in state `coldAndEmpty`, so it sends `finished`
        // although no program has finished.
        Ignore(event: Event.finished)
      }
    }
  }

  package static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<
    State, Event, Never
  > {
    Runtime().connectAsReceiver(to: ports.pipe("progress"))
  }
}

/// A view of a washing machine. It shows all steps, and marks the current step.
package enum WasherView: TerminalView {
  package static let minimumSize = TerminalSize(columns: 24, rows: 9)

  package static func body(_ state: WashingMachine.State, size: TerminalSize) -> [StyledLine] {
    let steps: [(WashingMachine.State, String)] = [
      (.coldAndEmpty, "cold and empty"), (.fullWithHotWater, "full with hot water"),
      (.waterHeated, "water heated"), (.drumAgitating, "drum agitating"), (.pumping, "pumping"),
      (.fullWithColdWater, "full with cold water"), (.spinning, "spinning"),
    ]
    return steps.map { step, text in
      step == state
        ? StyledLine("▶ ", .color(.green)) + StyledLine(text, .bold) : "  " + StyledLine(text, .dim)
    } + ["", StyledLine(state == .coldAndEmpty ? "s starts" : "", .dim)]
  }

  package static func event(
    for key: Key, in state: WashingMachine.State
  ) -> WashingMachine.Event? {
    key == .character("s") || key == .enter ? .start : nil
  }
}

/// A view of the panel of a washing machine.
package enum WasherPanelView: TerminalView {
  package static func body(_ state: WasherPanel.State, size: TerminalSize) -> [StyledLine] {
    switch state {
    case .showing(let step, let finished):
      [
        StyledLine(step == 0 ? "ready" : "step \(step)", .bold),
        StyledLine(finished == 1 ? "1 program done" : "\(finished) programs done", .dim),
      ]
    }
  }
}
