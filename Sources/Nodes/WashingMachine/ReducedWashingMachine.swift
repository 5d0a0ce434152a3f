import PipeRuntime

/// The washing machine as a reducer function. It has the same effects and pipes as
/// ``WashingMachine``.
package enum ReducedWashingMachine: Machine {
  package typealias State = WashingMachine.State
  package typealias Event = WashingMachine.Event
  package typealias Output = WashingMachine.Output

  package static func reduce(_ state: State, _ event: Event) -> State {
    switch (state, event) {
    case (.coldAndEmpty, .start): .fullWithHotWater
    case (.fullWithHotWater, .timeIsUp): .waterHeated
    case (.waterHeated, .timeIsUp): .drumAgitating
    case (.drumAgitating, .timeIsUp): .pumping
    case (.pumping, .timeIsUp): .fullWithColdWater
    case (.fullWithColdWater, .timeIsUp): .spinning
    case (.spinning, .timeIsUp): .coldAndEmpty
    case (.coldAndEmpty, .timeIsUp), (_, .start): state
    }
  }

  package static func output(_ state: State) -> Output? {
    switch state {
    case .coldAndEmpty: nil
    case .fullWithHotWater, .pumping: .wait(units: 1)
    case .waterHeated, .fullWithColdWater: .wait(units: 2)
    case .spinning: .wait(units: 3)
    case .drumAgitating: .wait(units: 4)
    }
  }

  package static func stateMachine(
    _ parameters: WashingMachine.Parameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: .coldAndEmpty, reduce: reduce, output: output)
  }

  package static func runtime(
    _ parameters: WashingMachine.Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    WashingMachine.runtime(parameters, ports)
  }
}
