import PipeRuntime
import Testing

@Suite("The runtime examples of the original document")
struct RuntimeTests {
  /// Sends the events that close the door, and returns the states until it is closed.
  private func run(_ runtime: Runtime<State, Event, Output>) async -> [State] {
    let sequence = AsyncStateMachineSequence(
      stateMachine: stateMachine,
      runtime: runtime
    )
    await sequence.send(Event.personsHaveEntered(persons: 3))
    await sequence.send(Event.closeButtonWasPressed)
    var states: [State] = []
    for await state in sequence {
      states.append(state)
      if state == .closed { break }
    }
    return states
  }

  private let whole: [State] = [
    .open(persons: 0), .open(persons: 3), .closing(persons: 3), .closed,
  ]

  @Test("A side effect closes the door")
  func sideEffect() async {
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close(speed:))
    #expect(await run(runtime) == whole)
  }

  @Test("Middleware prints every state and event in order")
  func middleware() async {
    let printed = AsyncStream.makeStream(of: String.self)
    @Sendable func print(_ line: String) { printed.continuation.yield(line) }

    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close(speed:))
      .register(middleware: { (state: State) in print("State: \(state)") })
      .register(middleware: { (event: Event) in print("Event: \(event)") })
    #expect(await run(runtime) == whole)
    // A reader may get a state before the middleware is called with it.
    var lines: [String] = []
    for await line in printed.stream {
      lines.append(line)
      if line == "State: closed" { break }
    }
    #expect(
      lines == [
        "State: open, 0 inside", "Event: personsHaveEntered(persons: 3)",
        "State: open, 3 inside", "Event: closeButtonWasPressed", "State: closing",
        "Event: doorHasLocked", "State: closed",
      ])
  }

  @Test("An effect can be a method of an object that holds its dependencies")
  func object() async {
    let useCase = ElevatorUseCase(engine: FastEngine())
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: useCase.close(speed:))
    #expect(await run(runtime) == whole)
  }

  @Test("A factory function can make an effect")
  func factory() async {
    let close = makeClose(engine: FastEngine())
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close)
    #expect(await run(runtime) == whole)
  }

  @Test("'inject' fixes the dependency of an effect")
  func injected() async {
    let closeSideEffect = inject(dep: Engine(), in: close(speed:engine:))
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: closeSideEffect)
    #expect(await run(runtime) == whole)
  }

  @Test("An effect with a priority and a strategy closes the door")
  func options() async {
    let useCase = ElevatorUseCase(engine: FastEngine())
    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: useCase.close(speed:),
        priority: .high,
        strategy: .cancelWhenAnyState
      )
    #expect(await run(runtime) == whole)
  }

  @Test("A machine sends an event to another machine through a pipe")
  func pipe() async {
    enum OtherState: DSLCompatible { case stale, fresh }
    enum OtherEvent: DSLCompatible { case refresh }
    enum OtherOutput: DSLCompatible {}

    let pipe = Pipe<OtherEvent>()

    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: makeClose(engine: FastEngine()))
      .connectAsSender(to: pipe, when: State.closed, send: OtherEvent.refresh)

    let otherRuntime = Runtime<OtherState, OtherEvent, OtherOutput>()
      .connectAsReceiver(to: pipe)

    let other = AsyncStateMachineSequence(
      stateMachine: StateMachine(initial: OtherState.stale) {
        When(state: OtherState.stale) {
          On(event: OtherEvent.refresh) { Transition(to: OtherState.fresh) }
        }
      },
      runtime: otherRuntime)
    #expect(await run(runtime) == whole)
    for await state in other where state == .fresh { break }
  }
}

@Suite("The state machine examples of the original document")
struct LanguageTests {
  @Test(
    "The elevator makes the transitions that the original document describes",
    arguments: [
      (.open(persons: 0), .personsHaveEntered(persons: 1), .open(persons: 1)),
      (.open(persons: 5), .closeButtonWasPressed, .closing(persons: 5)),
      (.open(persons: 15), .closeButtonWasPressed, nil),
      (.closing(persons: 1), .doorHasLocked, .closed),
      (.closed, .closeButtonWasPressed, nil),
    ] as [(State, Event, State?)])
  func reads(state: State, event: Event, next: State?) async {
    #expect(await stateMachine.next(state, event) == next)
  }

  @Test("The elevator has the outputs that the original document describes")
  func outputs() {
    #expect(stateMachine.initial == .open(persons: 0))
    #expect(stateMachine.output(.open(persons: 0)) == nil)
    #expect(stateMachine.output(.closing(persons: 1)) == .close(speed: 2))
    #expect(stateMachine.output(.closed) == nil)
  }

  // The first listing of the document names no types and omits one body. It uses `state2` both with
  // and without a value, so the form without a value is called `state3` here.
  @Test("The first listing of the original document compiles and makes its transitions")
  func sketch() {
    enum State: DSLCompatible, Equatable { case state1, state2(value: Int), state3, state4(Int) }
    enum Event: DSLCompatible { case event1, event2, event3(value: Int) }
    enum Output: DSLCompatible, Equatable { case output1 }

    let stateMachine: StateMachine<State, Event, Output> = StateMachine(initial: .state1) {
      When(state: .state1) {
        Execute(output: .output1)
      } transitions: {
        On(event: .event1) { Transition(to: .state2(value: 1)) }
        On(event: .event2) { Transition(to: .state3) }
        On(event: Event.event3(value:)) { value in Transition(to: .state4(value)) }
      }

      When(state: State.state2(value:)) { value in
        Execute.noOutput
      } transitions: { value in
        On(event: .event1) { Transition(to: .state4(value)) }
      }
    }
    #expect(stateMachine.output(.state1) == .output1)
    #expect(stateMachine.reduce(.state1, .event2) == .next(.state3))
    #expect(stateMachine.reduce(.state1, .event3(value: 7)) == .next(.state4(7)))
    #expect(stateMachine.reduce(.state2(value: 5), .event1) == .next(.state4(5)))
  }

  // The document writes commas between the cases. Swift does not accept commas in a result builder.
  @Test("The states of a set share the set's transitions")
  func states() {
    enum State: DSLCompatible, Equatable { case closing(persons: Int), closed, opening }

    let stateMachine = StateMachine(initial: State.closed) {
      When(
        states: OneOf {
          State.closing(persons:)
          State.closed
        }
      ) { _ in
        Execute.noOutput
      } transitions: {
        On(event: Event.closeButtonWasPressed) { _ in
          Transition(to: State.opening)
        }
      }
    }
    for state in [State.closing(persons: 2), .closed] {
      #expect(stateMachine.reduce(state, .closeButtonWasPressed) == .next(.opening))
    }
    #expect(stateMachine.reduce(.opening, .closeButtonWasPressed) == .refused(.noTransition))
  }
}
