import PipeRuntime

/// Meets the guest with the same key in another node, and takes numbered visits of its own.
package enum Guest: Machine {
  package enum State: MachineState, StateProtocol, Equatable {
    case present(met: Int, visits: Int, last: Int, wrong: Int)
    case away(met: Int)
    case gone(met: Int)
  }

  package enum Event: MachineEvent {
    case meet(key: String)
    case visit(key: String, n: Int)
    case leave(key: String)
    case comeBack(key: String)
    /// Ends the guest, together with the other guest.
    case part(key: String)
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.present(met: 0, visits: 0, last: 0, wrong: 0)) {
      When(state: State.present(met:visits:last:wrong:)) { _, _, _, _ in
        Execute.noOutput
      } transitions: { met, visits, last, wrong in
        On(event: Event.meet(key:)) { _ in
          Transition(to: State.present(met: met + 1, visits: visits, last: last, wrong: wrong))
        }
        On(event: Event.visit(key:n:)) { _, n in
          Transition(
            to: State.present(
              met: met, visits: visits + 1, last: n, wrong: n > last ? wrong : wrong + 1))
        }
        On(event: Event.leave(key:)) { _ in Transition(to: State.away(met: met)) }
        On(event: Event.part(key:)) { _ in Transition(to: State.gone(met: met)) }
      }
      When(state: State.away(met:)) { _ in
        Execute.noOutput
      } transitions: { met in
        On(event: Event.comeBack(key:)) { _ in
          Transition(to: State.present(met: met, visits: 0, last: 0, wrong: 0))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }
}

/// Sends numbered visits to guests with several keys in rotation, as fast as its pipe accepts them.
package enum Herald: Machine {
  package enum State: MachineState, Equatable {
    case idle(sent: Int)
    case sending(n: Int, until: Int, keys: Int)
  }

  package enum Event: MachineEvent {
    /// Sends `count` more visits, to `keys` different keys in rotation.
    case go(count: Int, keys: Int)
    case next
  }

  package enum Output: MachineOutput { case goOn }

  package static func stateMachine(
    _ parameters: NoParameters
  ) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.idle(sent: 0)) {
      When(state: State.idle(sent:)) { _ in
        Execute.noOutput
      } transitions: { sent in
        On(event: Event.go(count:keys:)) { count, keys in
          Transition(to: State.sending(n: sent + 1, until: sent + count, keys: keys))
        }
      }
      When(state: State.sending(n:until:keys:)) { _, _, _ in
        Execute(output: Output.goOn)
      } transitions: { n, until, keys in
        On(event: Event.next) {
          Transition(
            to: n < until
              ? State.sending(n: n + 1, until: until, keys: keys) : State.idle(sent: n))
        }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(output: Output.goOn, to: { Event.next })
      .connectAsSender(
        to: ports.pipe("out"), when: State.sending(n:until:keys:),
        send: { n, _, keys in Guest.Event.visit(key: "k\(n % keys)", n: n) })
  }
}
