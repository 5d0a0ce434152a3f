import PipeRuntime

/// Sends numbered visits to several keys in rotation, as fast as its pipe accepts them.
package enum Caller: Machine {
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
          Guard(predicate: count > 0 && keys > 0)
        } transition: { count, keys in
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
        send: { n, _, keys in Visitor.Event.visit(key: "k\(n % keys)", n: n) })
  }
}

/// Counts the visits of one key, and the visits that are out of order.
package enum Visitor: Machine {
  package enum State: MachineState, StateProtocol, Equatable {
    case new
    case visited(times: Int, last: Int, wrong: Int)
    case resting(times: Int)
    case rested(times: Int)
    case gone
  }

  package enum Event: MachineEvent {
    case visit(key: String, n: Int)
    /// Starts an effect that produces the event `woke`.
    case rest(key: String)
    case woke
    case leave(key: String)
    /// Ends the process.
    case crash(key: String)
  }

  package enum Output: MachineOutput { case rest }

  package struct Parameters: MachineParameters {
    /// The file to which each run of the effect appends its idempotency key.
    package var ledger = ""
    /// The duration of the effect. Unit: milliseconds.
    package var time = 0
    /// The key of the instance whose effect ends the process.
    package var crashing = ""
    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    StateMachine(initial: State.new) {
      When(state: State.new) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.visit(key:n:)) { _, n in
          Transition(to: State.visited(times: 1, last: n, wrong: 0))
        }
      }
      When(state: State.visited(times:last:wrong:)) { _, _, _ in
        Execute.noOutput
      } transitions: { times, last, wrong in
        On(event: Event.visit(key:n:)) { _, n in
          Transition(
            to: State.visited(times: times + 1, last: n, wrong: n > last ? wrong : wrong + 1))
        }
        On(event: Event.rest(key:)) { _ in Transition(to: State.resting(times: times)) }
        On(event: Event.leave(key:)) { _ in Transition(to: State.gone) }
        On(event: Event.crash(key:)) { _ in
          fatalError("a visitor crashes on purpose")
        }
      }
      When(state: State.resting(times:)) { _ in
        Execute(output: Output.rest)
      } transitions: { times in
        On(event: Event.woke) { Transition(to: State.rested(times: times)) }
      }
    }
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    Runtime()
      .map(output: Output.rest) { () -> Event? in
        if !parameters.crashing.isEmpty,
          IdempotencyKey.current?.node.hasSuffix("[\(parameters.crashing)]") == true
        {
          fatalError("the effect of a visitor crashes on purpose")
        }
        if !parameters.ledger.isEmpty {
          Ledger.append(IdempotencyKey.current?.description ?? "none", to: parameters.ledger)
        }
        do { try await EffectClock.sleep(for: .milliseconds(parameters.time)) } catch { return nil }
        return .woke
      }
      .connectAsReceiver(to: ports.pipe("in"))
  }
}

/// A machine whose instances get their key as a parameter.
package enum Doorplate: Machine {
  package enum State: MachineState, Equatable {
    case blank
    case shows(house: Int)
  }

  package enum Event: MachineEvent { case paint(house: Int) }

  package struct Parameters: MachineParameters {
    package var house = 0
    package init() {}
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Never> {
    StateMachine(initial: State.blank) {
      When(state: State.blank) { _ in
        Execute.noOutput
      } transitions: { _ in
        On(event: Event.paint(house:)) { _ in
          Transition(to: State.shows(house: parameters.house))
        }
      }
    }
  }
}
