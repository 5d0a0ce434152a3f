import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@MainActor
@Suite("Documented views", .stallLimit(.seconds(60)))
struct Views {
  @Test("A view state shows its machine's state and sends events to the machine")
  func viewState() async {
    let door = AsyncStateMachineSequence(
      stateMachine: stateMachine,
      runtime: Runtime().map(output: Output.close(speed:), to: close(speed:)))
    // docs: begin
    let viewState = ViewState(door)
    let task = Task { await viewState.start() }

    await viewState.send(.personsHaveEntered(persons: 1))
    await viewState.send(.closeButtonWasPressed, resumeWhen: .closed)
    // docs: end
    #expect("\(door.state)" == "closed")
    task.cancel()
  }
}
