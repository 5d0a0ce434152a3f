import PipeRuntime

/// A machine with four states. Parameters define its transitions, sent events and effects. Random
/// topologies of such machines are small enough for a full state search.
///
/// In the initial state, the machine does nothing by itself. The event `tick` does not leave this
/// state.
package enum Rambler: Machine {
  package enum State: MachineState, Hashable, CaseIterable {
    case home, north, east, south
  }

  package enum Event: MachineEvent, Hashable, CaseIterable {
    case tick
    case x
    case y
    case z
    /// The result of an effect that is cancelled when the machine enters any state.
    case soon
    /// The result of an effect that runs until the machine enters certain states.
    case late
  }

  package enum Output: MachineOutput, Hashable {
    case hurry
    case dawdle
  }

  package struct Parameters: MachineParameters {
    /// The transitions, each as `PLACE EVENT PLACE`.
    package var steps: [String] = []
    /// The sent events, each as `PLACE EVENT` or `PLACE EVENT EVENT`: the events that the machine
    /// sends through the port `out` on entering a state.
    package var sends: [String] = []
    /// The effects, each as `PLACE OUTPUT`: the effect that starts when the machine enters a state.
    package var works: [String] = []
    /// The duration of an effect. Unit: microseconds.
    package var work = 500

    package init() {}
  }

  /// The parsed parameters.
  private struct Tables {
    var steps: [State: [Event: State]] = [:]
    var sends: [State: [Event]] = [:]
    var works: [State: Output] = [:]

    init(_ parameters: Parameters) {
      for step in parameters.steps {
        let words = Self.words(step)
        guard words.count == 3, let from = Self.place(words[0]), let event = Self.event(words[1])
        else { continue }
        steps[from, default: [:]][event] = Self.place(words[2])
      }
      for send in parameters.sends {
        let words = Self.words(send)
        guard let place = words.first.flatMap(Self.place) else { continue }
        sends[place] = words.dropFirst().compactMap(Self.event)
      }
      for work in parameters.works {
        let words = Self.words(work)
        guard words.count == 2, let place = Self.place(words[0]) else { continue }
        works[place] = words[1] == "hurry" ? .hurry : .dawdle
      }
    }

    private static func words(_ text: String) -> [String] {
      text.split(separator: " ").map(String.init)
    }

    private static func place(_ word: String) -> State? {
      State.allCases.first { "\($0)" == word }
    }

    private static func event(_ word: String) -> Event? {
      Event.allCases.first { "\($0)" == word }
    }

    func sent(on state: State, _ place: Int) -> Event? {
      let events = sends[state] ?? []
      return place < events.count ? events[place] : nil
    }
  }

  package static func stateMachine(_ parameters: Parameters) -> StateMachine<State, Event, Output> {
    let tables = Tables(parameters)
    return StateMachine(
      initial: State.home,
      reduce: { (state: State, event: Event) -> Reduction<State> in
        if state == .home, event == .tick { return .next(.home) }
        return tables.steps[state]?[event].map { .next($0) } ?? .refused(.noTransition)
      },
      output: { tables.works[$0] })
  }

  package static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Output> {
    let tables = Tables(parameters)
    let out: EventPipe<Event> = ports.pipe("out")
    return Runtime()
      .map(
        output: Output.hurry,
        to: {
          try? await EffectClock.sleep(for: .microseconds(parameters.work))
          return Event.soon
        }, strategy: .cancelWhenAnyState
      )
      .map(
        output: Output.dawdle,
        to: {
          try? await EffectClock.sleep(for: .microseconds(4 * parameters.work))
          return Event.late
        },
        // Cancel the effect when it would start again, so that it never runs twice at the same
        // time.
        strategy: .cancel(when: { (state: State) -> Bool in
          tables.works[state] == .dawdle || state == .home
        })
      )
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(to: out, forEachState: { tables.sent(on: $0, 0) })
      .connectAsSender(to: out, forEachState: { tables.sent(on: $0, 1) })
  }
}
