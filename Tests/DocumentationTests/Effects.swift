import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

private struct Motor: Sendable {
  func turn(speed: Int) async -> Bool { speed > 0 }
}

/// A motor that records its idempotency keys.
private actor KeyedMotor {
  private(set) var keys: [String] = []
  func turn(speed: Int, idempotencyKey key: String) { keys.append(key) }
}

@Suite("Documented effects", .stallLimit(.seconds(60)))
struct Effects {
  private func closes(_ runtime: Runtime<State, Event, Output>) async -> Bool {
    let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: runtime)
    let recorder = StateRecorder(door)
    await door.send(.closeButtonWasPressed)
    return await !recorder.wait(until: .closed).isEmpty
  }

  @Test("An effect returns one event or none")
  func event() async {
    // docs: begin
    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: { speed in
          speed > 0 ? Event.doorHasLocked : nil
        })
    // docs: end
    #expect(await closes(runtime))
  }

  @Test("An effect's idempotency key contains the run and the version of the step")
  func idempotency() async {
    let motor = KeyedMotor()
    // docs: begin
    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: { speed in
          let key = IdempotencyKey.current?.description ?? ""
          await motor.turn(speed: speed, idempotencyKey: key)
          return Event.doorHasLocked
        })
    // docs: end
    #expect(await closes(runtime))
    let keys = await motor.keys
    #expect(keys.count == 1)
    // The key contains the machine, the run, and the version of the step.
    #expect(keys.first?.hasPrefix("local/") == true)
    #expect(keys.first?.hasSuffix("/1") == true)
  }

  @Test("An effect can return a sequence of events")
  func events() async {
    // docs: begin
    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: { speed in
          AsyncStream { continuation in
            continuation.yield(Event.closeButtonWasPressed)
            continuation.yield(Event.doorHasLocked)
            continuation.finish()
          }
        })
    // docs: end
    #expect(await closes(runtime))
  }

  @Test("An effect with a priority and a strategy runs")
  func strategy() async {
    // docs: begin
    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: close(speed:),
        priority: .high,
        strategy: .cancel(when: State.open(persons:)))
    // docs: end
    #expect(await closes(runtime))
  }

  @Test("'inject' passes a dependency to an effect")
  func dependency() async {
    // docs: begin
    func close(speed: Int, motor: Motor) async -> Event? {
      await motor.turn(speed: speed) ? .doorHasLocked : nil
    }

    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: inject(dep: Motor(), in: close(speed:motor:)))
    // docs: end
    #expect(await closes(runtime))
  }

  @Test("'catch' accepts an effect that throws")
  func failure() async {
    struct Jammed: Error {}
    // docs: begin
    func turn(speed: Int) async throws -> Event? {
      if speed < 1 { throw Jammed() }
      return .doorHasLocked
    }

    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: turn(speed:),
        catch: { error in Event.personsHaveEntered(persons: 0) })
    // docs: end
    #expect(await closes(runtime))
  }

  @Test("An error in an effect's event sequence becomes the machine's failure event")
  func failureEvent() async {
    struct Unplugged: Error {}
    enum Reading: DSLCompatible, Equatable { case none, value(Double), failed(String) }
    enum Ask: DSLCompatible { case measure }
    // docs: begin
    enum Signal: MachineEvent, FailureEvent {
      case measured(Double)
      case sensorFailed(String)

      static func failure(_ error: any Error) -> Signal { .sensorFailed("\(error)") }
    }

    func measure() -> AsyncThrowingStream<Signal, any Error> {
      AsyncThrowingStream { continuation in
        continuation.yield(.measured(21.5))
        continuation.finish(throwing: Unplugged())
      }
    }

    let runtime = Runtime<Reading, Signal, Ask>()
      .map(output: .measure, to: measure)
    // docs: end
    let sensor = AsyncStateMachineSequence(
      stateMachine: StateMachine<Reading, Signal, Ask>(initial: .none) {
        When(state: .none) {
          Execute(output: .measure)
        } transitions: {
          On(event: Signal.measured) { value in Transition(to: .value(value)) }
        }
        When(state: Reading.value) { _ in
          Execute.noOutput
        } transitions: { _ in
          On(event: Signal.sensorFailed) { text in Transition(to: .failed(text)) }
        }
      }, runtime: runtime)
    let recorder = StateRecorder(sensor)
    #expect(
      await recorder.states(count: 3) == [.none, .value(21.5), .failed("Unplugged()")])
  }

  @Test("A machine with middleware for states and events reaches its last state")
  func middleware() async {
    // docs: begin
    let runtime = Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: close(speed:))
      .register(middleware: { (state: State) in print("State: \(state)") })
      .register(middleware: { (event: Event) in print("Event: \(event)") })
    // docs: end
    #expect(await closes(runtime))
  }
}
