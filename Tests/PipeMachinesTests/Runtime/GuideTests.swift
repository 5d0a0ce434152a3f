import PipeMachines
import Synchronization
import Testing

// The runtime examples of the guide, without their delays.

private func close(speed: Int) async -> Event {
  await Task.yield()
  return .doorHasLocked
}

private protocol Motor { var delay: Int { get } }
private struct FastMotor: Motor { let delay = 1 }

private func close(speed: Int, motor: any Motor) async -> Event {
  await Task.yield()
  return motor.delay / speed == 0 ? .doorHasLocked : .closeButtonWasPressed
}

private class ElevatorUseCase {
  let motor: any Motor

  init(motor: any Motor) { self.motor = motor }

  func close(speed: Int) async -> Event {
    await Task.yield()
    return .doorHasLocked
  }
}

private func makeClose(motor: any Motor) -> (Int) async -> Event {
  return { (speed: Int) in
    await Task.yield()
    return Event.doorHasLocked
  }
}

@Suite("The runtime of the guide")
struct GuideTests {
  /// Drives the door until it is closed, and returns the states seen.
  private func run(_ runtime: Runtime<State, Event, Output>) async -> [State] {
    let sequence = AsyncStateMachineSequence(stateMachine: makeElevator(), runtime: runtime)
    var seen: [State] = []
    for await state in sequence {
      seen.append(state)
      switch state {
      case .open(persons: 0): await sequence.send(Event.personsHaveEntered(persons: 3))
      case .open: await sequence.send(Event.closeButtonWasPressed)
      case .closing: break
      case .closed: sequence.finish()
      }
    }
    return seen
  }

  private let whole: [State] = [
    .open(persons: 0), .open(persons: 3), .closing(persons: 3), .closed,
  ]

  @Test("An effect's event closes the door")
  func effect() async {
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close(speed:))
    #expect(await run(runtime) == whole)
  }

  @Test("Middleware sees every state and event in the order of the steps")
  func middleware() async {
    let log = Mutex<[String]>([])
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close(speed:))
      .register(middleware: { (state: State) in log.withLock { $0.append("State: \(state)") } })
      .register(middleware: { (event: Event) in log.withLock { $0.append("Event: \(event)") } })
    #expect(await run(runtime) == whole)
    #expect(
      log.withLock { $0 } == [
        "State: open(persons: 0)", "Event: personsHaveEntered(persons: 3)",
        "State: open(persons: 3)", "Event: closeButtonWasPressed", "State: closing(persons: 3)",
        "Event: doorHasLocked", "State: closed",
      ])
  }

  @Test("A method of an object that is not Sendable can be an effect")
  func useCase() async {
    let useCase = ElevatorUseCase(motor: FastMotor())
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: useCase.close(speed:))
    #expect(await run(runtime) == whole)
  }

  @Test("A closure made by a factory can be an effect")
  func factory() async {
    let close = makeClose(motor: FastMotor())
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close)
    #expect(await run(runtime) == whole)
  }

  @Test("A dependency is injected into an effect")
  func injection() async {
    let closeSideEffect = inject(dep: FastMotor(), in: close(speed:motor:))
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: closeSideEffect)
    #expect(await run(runtime) == whole)
  }

  @Test("An effect can have a priority and a strategy")
  func strategy() async {
    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: close(speed:),
        priority: .high,
        strategy: .cancelWhenAnyState
      )
    #expect(await run(runtime) == whole)
  }

  @Test("Two or three dependencies are injected in order")
  func injections() async {
    func effect(_ value: Int, _ first: String, _ second: Bool, _ third: Double) async -> String {
      "\(value) \(first) \(second) \(third)"
    }
    func shorter(_ first: String, _ second: Bool) async -> String { "\(first) \(second)" }
    #expect(await inject(deps: "a", true, 1.5, in: effect)(3) == "3 a true 1.5")
    #expect(await inject(deps: "a", true, in: shorter)() == "a true")
  }
}

private enum OtherState: DSLCompatible, Equatable { case waiting, refreshed }
private enum OtherEvent: DSLCompatible { case refresh }
private enum OtherOutput: DSLCompatible { case none }

@Suite("Two machines connected by a pipe")
struct ConnectionTests {
  @Test("The closed door refreshes the other machine through the pipe")
  func connects() async {
    let pipe = Pipe<OtherEvent>()
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close(speed:))
      .connectAsSender(to: pipe, when: State.closed, send: OtherEvent.refresh)

    let otherRuntime = Runtime<OtherState, OtherEvent, OtherOutput>()
      .connectAsReceiver(to: pipe)
    let otherMachine = StateMachine<OtherState, OtherEvent, OtherOutput>(initial: .waiting) {
      When(state: .waiting) {
        On(event: .refresh) { Transition(to: .refreshed) }
      }
    }

    let door = AsyncStateMachineSequence(stateMachine: makeElevator(), runtime: runtime)
    let other = AsyncStateMachineSequence(stateMachine: otherMachine, runtime: otherRuntime)
    await door.send(.closeButtonWasPressed)
    for await state in other where state == .refreshed { break }
    #expect(door.state == .closed)
  }
}
