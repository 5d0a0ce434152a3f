import PipeRuntime

/// Stores a text that can grow and shrink at both ends, so that its state can have any size.
package enum Scroll: Machine {
  package enum State: MachineState, Equatable {
    case holding(count: Int, text: String)
  }

  package enum Event: MachineEvent {
    /// Stores a text of this size.
    case fill(byteCount: Int)
    case append(text: String)
    case prepend(text: String)
    /// Removes this number of characters at each end.
    case trim(count: Int)
    case touch
  }

  package static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never>
  {
    StateMachine(initial: State.holding(count: 0, text: "")) {
      When(state: State.holding(count:text:)) { _, _ in
        Execute.noOutput
      } transitions: { count, text in
        On(event: Event.fill(byteCount:)) { size in
          Transition(to: State.holding(count: count + 1, text: Self.text(size)))
        }
        On(event: Event.append(text:)) { more in
          Transition(to: State.holding(count: count + 1, text: text + more))
        }
        On(event: Event.prepend(text:)) { more in
          Transition(to: State.holding(count: count + 1, text: more + text))
        }
        On(event: Event.trim(count:)) { removed in
          Transition(
            to: State.holding(
              count: count + 1, text: String(text.dropFirst(removed).dropLast(removed))))
        }
        On(event: Event.touch) { Transition(to: State.holding(count: count + 1, text: text)) }
      }
    }
  }

  package static func runtime(
    _ parameters: NoParameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> {
    Runtime().connectAsReceiver(to: ports.pipe("in"))
  }

  /// Returns a text of this size without repetitions.
  package static func text(_ byteCount: Int) -> String {
    var text = ""
    text.reserveCapacity(byteCount + 8)
    var number = 0
    while text.utf8.count < byteCount {
      text += "\(number) "
      number += 1
    }
    return String(text.prefix(byteCount))
  }
}
