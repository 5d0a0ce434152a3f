import PipeRuntime

/// A model with pipes. Its state is unstable while it warms up.
package actor Heater: HostableModel {
  package enum State: MachineState, StateProtocol, Hashable {
    case cold
    case warming(degrees: Int)
    case warm

    package var isStable: Bool {
      switch self {
      case .cold, .warm: true
      case .warming: false
      }
    }
  }

  package enum Event: MachineEvent, Hashable { case heat, cool }

  package struct Parameters: MachineParameters {
    /// The time for warming up. Unit: milliseconds.
    package var time = 0
    package init() {}
  }

  private let subject: ConcurrentValueSubject<State>
  private let time: Duration

  package init(startsWith state: State, _ parameters: Parameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    time = .milliseconds(parameters.time)
  }

  package static func initialState(_ parameters: Parameters) -> State { .cold }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsSender(
        to: ports.pipe("warmed"), when: State.warming(degrees:), send: Button.Event.press
      )
      .connectAsReceiver(to: ports.pipe("thermostat"))
  }

  package nonisolated var state: State { subject.state }
  package nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  package func take(_ event: Event) async {
    switch (subject.state, event) {
    case (.cold, .heat):
      for degrees in [30, 60] {
        subject.send(.warming(degrees: degrees))
        try? await EffectClock.sleep(for: time / 2)
      }
      subject.send(.warm)
    case (.warm, .cool): subject.send(.cold)
    case (.cold, .cool), (.warm, .heat), (.warming, _): break
    }
  }
}

/// Turns the heater on each time a button is pressed.
package enum Thermostat: Machine {
  package enum State: MachineState, Equatable { case turned(times: Int) }
  package enum Event: MachineEvent { case turn }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.turned(times: 0)) {
      When(state: State.turned(times:)) { _ in
        Execute.noOutput
      } transitions: { times in
        On(event: Event.turn) { Transition(to: State.turned(times: times + 1)) }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsSender(
      to: ports.pipe("heater"), forEachEvent: { _ in Heater.Event.heat })
  }
}
