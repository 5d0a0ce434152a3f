import Observation
import PipeRuntime
import TestTraits
import Testing

// Unchanged from the document, except that the document omits `var`.
struct ContentView: View {
  @ObservedObject var viewState: ViewState<State, Event, Output>

  var body: some View {
    VStack {
      Text(self.viewState.state.description)
      Button {
        Task {
          await self.viewState.send(Event.personsHaveEntered(persons: 1))
        }
      } label: {
        Text("New person")
      }
      Button {
        Task {
          await self.viewState.send(Event.closeButtonWasPressed)
        }
      } label: {
        Text("Close the door")
      }
    }.task {
      await viewState.start()
    }
  }
}

/// A controller that renders each state that it is notified of.
@MainActor final class Controller {
  private let viewState: ViewState<State, Event, Output>
  private(set) var rendered: [State] = []

  init(_ viewState: ViewState<State, Event, Output>) { self.viewState = viewState }

  func render() {
    withObservationTracking {
      rendered.append(viewState.state)
    } onChange: { [weak self] in
      Task { @MainActor [weak self] in self?.render() }
    }
  }
}

@MainActor
@Suite("The view state examples of the original document")
struct ViewTests {
  private let myAsyncStateMachine = AsyncStateMachineSequence(
    stateMachine: stateMachine,
    runtime: Runtime<State, Event, Output>()
      .map(output: Output.close(speed:), to: makeClose(engine: FastEngine())))

  /// Waits until the view state shows a state.
  private func wait(_ viewState: ViewState<State, Event, Output>, for state: State) async {
    while viewState.state != state {
      let changed = AsyncStream.makeStream(of: Void.self)
      withObservationTracking {
        if viewState.state == state { changed.continuation.yield() }
      } onChange: {
        changed.continuation.yield()
      }
      for await _ in changed.stream { break }
      await Task.yield()
    }
  }

  @Test("A view shows the state, and its buttons send events")
  func view() async throws {
    let viewState = ViewState(myAsyncStateMachine)
    let view = ContentView(viewState: viewState)
    let screen = Screen(view)
    #expect(screen.texts == ["open, 0 inside"])
    let task = Task { for task in screen.tasks { await task() } }
    screen.buttons["New person"]?()
    await wait(viewState, for: .open(persons: 1))
    #expect(Screen(view).texts == ["open, 1 inside"])
    screen.buttons["Close the door"]?()
    await wait(viewState, for: .closed)
    #expect(Screen(view).texts == ["closed"])
    task.cancel()
    await task.value
  }

  // Uses Observation instead of `viewState.$state.sink`, which needs Combine.
  @Test("A controller renders each state that it is notified of")
  func controller() async {
    let viewState = ViewState(myAsyncStateMachine)
    let controller = Controller(viewState)
    controller.render()
    let task = Task { await viewState.start() }
    await viewState.send(.personsHaveEntered(persons: 2))
    await viewState.send(.closeButtonWasPressed)
    await wait(viewState, for: .closed)
    await yieldUntil(controller.rendered.last == .closed)
    #expect(controller.rendered.first == .open(persons: 0))
    task.cancel()
    await task.value
  }

  @Test("'send(_:resumeWhen:)' resumes when the machine reaches the state")
  func resume() async {
    let viewState = ViewState(myAsyncStateMachine)
    await viewState.send(
      .closeButtonWasPressed,
      resumeWhen: .closed
    )
    #expect(myAsyncStateMachine.state == .closed)
  }

  @Test("A binding of a view state sends an event when the binding is set")
  func bindings() async {
    let viewState = ViewState(myAsyncStateMachine)
    let task = Task { await viewState.start() }
    let whole = viewState.binding(send: .personsHaveEntered(persons: 4))
    whole.wrappedValue = .closed
    await wait(viewState, for: .open(persons: 4))
    #expect(whole.wrappedValue == .open(persons: 4))
    let persons = viewState.binding(keypath: \.persons, send: .closeButtonWasPressed)
    #expect(persons.wrappedValue == 4)
    persons.wrappedValue = 0
    await wait(viewState, for: .closed)
    task.cancel()
    await task.value
  }
}
