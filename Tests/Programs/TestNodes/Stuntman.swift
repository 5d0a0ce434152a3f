import Glibc
import PipeRuntime

/// Runs an effect that ends the process, and at the same time a feedback that does not.
package enum Stuntman: Machine {
  package enum State: MachineState, Equatable {
    case resting(done: Int)
    case performing(Trick, done: Int)
  }

  package enum Event: MachineEvent {
    case perform(Trick)
    case landed
    case giveUp
  }

  package enum Trick: String, Codable, Sendable {
    case trap, exit
    /// The effect traps in a child task.
    case childTrap
    /// The effect runs until the node ends.
    case hang
    /// The effect and the feedback both trap.
    case together
  }

  package enum Output: MachineOutput { case stunt(Trick) }

  package struct Parameters: MachineParameters {
    /// The path of the file. Each run of the effect or the feedback adds a line. If another file
    /// with this name and the suffix `.net` exists, nothing ends the process.
    package var ledger = ""
    package init() {}
  }

  package static func stateMachine(
    _ parameters: Parameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.resting(done: 0)) {
      When(state: State.resting(done:)) { _ in
        Execute.noOutput
      } transitions: { done in
        On(event: Event.perform) { trick in Transition(to: State.performing(trick, done: done)) }
      }
      When(state: State.performing) { trick, _ in
        Execute(output: Output.stunt(trick))
      } transitions: { _, done in
        On(event: Event.landed) { Transition(to: State.resting(done: done + 1)) }
        On(event: Event.giveUp) { Transition(to: State.resting(done: done)) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(
        output: Output.stunt,
        to: { (trick: Trick) -> Event? in
          Ledger.append(
            "stunt \(IdempotencyKey.current?.description ?? "no key")", to: parameters.ledger)
          if access(parameters.ledger + ".net", F_OK) != 0 { await end(by: trick) }
          return .landed
        }, strategy: .cancelWhenAnyState
      )
      .feedback(
        Feedback(lensing: { state in
          if case .performing(let trick, _) = state { trick } else { nil }
        }) { trick -> Event? in
          Ledger.append(
            "watch \(IdempotencyKey.current?.description ?? "no key")", to: parameters.ledger)
          if trick == .together, access(parameters.ledger + ".net", F_OK) != 0 { abort() }
          try? await Task.sleep(for: .seconds(3_600))
          return nil
        })
  }

  private static func end(by trick: Trick) async {
    switch trick {
    case .trap, .together: abort()
    case .exit: exit(3)
    case .childTrap:
      async let child: Void = { () async in abort() }()
      await child
    case .hang: try? await Task.sleep(for: .seconds(3_600))
    }
  }
}
