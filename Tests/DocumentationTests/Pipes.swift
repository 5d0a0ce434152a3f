import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

enum Sign: DSLCompatible { case dark, shows(persons: Int) }
enum SignEvent: DSLCompatible { case clear, show(persons: Int) }

@Suite("Documented pipes", .stallLimit(.seconds(60)))
struct Pipes {
  @Test("A pipe connects two machines in one process")
  func connects() async {
    // docs: begin
    let pipe = EventPipe<SignEvent>()

    let doorRuntime = Runtime<State, Event, Output>()
      .connectAsSender(to: pipe, when: State.closed, send: SignEvent.clear)
      .connectAsSender(to: pipe, when: State.closing(persons:), send: SignEvent.show(persons:))

    let signRuntime = Runtime<Sign, SignEvent, Never>()
      .connectAsReceiver(to: pipe)
    // docs: end

    let signMachine = StateMachine<Sign, SignEvent, Never>(initial: .dark) {
      When(state: Sign.dark) {
        On(event: SignEvent.show(persons:)) { persons in Transition(to: .shows(persons: persons)) }
      }
      When(state: Sign.shows(persons:)) { _ in
        On(event: SignEvent.clear) { Transition(to: .dark) }
      }
    }
    let door = AsyncStateMachineSequence(stateMachine: stateMachine, runtime: doorRuntime)
    let sign = AsyncStateMachineSequence(stateMachine: signMachine, runtime: signRuntime)
    let recorder = StateRecorder(sign)
    await door.send(.personsHaveEntered(persons: 3))
    await door.send(.closeButtonWasPressed)
    await door.send(.doorHasLocked)
    let states = await recorder.states(count: 3)
    #expect(states.map { "\($0)" } == ["dark", "shows(persons: 3)", "dark"])
  }
}
