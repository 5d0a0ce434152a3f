import PipeRuntime

/// A machine of four places whose transitions, sends and effects are parameters: of random topologies of
/// these all states can be searched.
///
/// It begins in a place where nothing happens by itself, and that `tick` does not leave.
package enum Rambler: Machine {
  package enum State: MachineState, Hashable, CaseIterable {
    case home, north, east, south
  }

  package enum Event: MachineEvent, Hashable, CaseIterable {
    case tick
    case x
    case y
    case z
    /// What the effect gives that the next entry cancels.
    case soon
    /// What the effect gives that goes on until some places are entered.
    case late
  }

  package enum Output: MachineOutput, Hashable {
    case hurry
    case dawdle
  }

  package struct Parameters: MachineParameters {
    /// `PLACE EVENT PLACE`.
    package var steps: [String] = []
    /// `PLACE EVENT`, or `PLACE EVENT EVENT`: what an entry sends through the port `out`.
    package var sends: [String] = []
    /// `PLACE OUTPUT`: the effect that an entry starts.
    package var works: [String] = []
    /// How long an effect takes. Unit: microseconds.
    package var work = 500

    package init() {}
  }

  /// The parameters, read.
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
        // Where it would be started again: so that no two are under way.
        strategy: .cancel(when: { (state: State) -> Bool in
          tables.works[state] == .dawdle || state == .home
        })
      )
      .connectAsReceiver(to: ports.pipe("in"))
      .connectAsSender(to: out, forEachState: { tables.sent(on: $0, 0) })
      .connectAsSender(to: out, forEachState: { tables.sent(on: $0, 1) })
  }
}
