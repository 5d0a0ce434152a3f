import Nodes
import PipeRuntime
import Testing

/// A model with a task that lives as long as it, and that says when it is gone.
private actor Guest: HostableModel {
  enum State: MachineState, StateProtocol, Hashable { case shut, open }
  enum Event: MachineEvent { case look }

  @TaskLocal static var farewell: AsyncStream<Void>.Continuation?

  private let subject: ConcurrentValueSubject<State>
  private let farewell = Guest.farewell
  private let looks = AsyncStream.makeStream(of: Void.self)

  init(startsWith state: State, _ parameters: NoParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    Task { [weak self, stream = looks.stream] in
      for await _ in stream { await self?.take(.look) }
    }
  }

  deinit {
    looks.continuation.finish()
    farewell?.finish()
  }

  static func initialState(_ parameters: NoParameters) -> State { .shut }

  nonisolated var state: State { subject.state }
  nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  func take(_ event: Event) { subject.send(.open) }
}

@Suite("Seed: a model as a machine in one process")
struct ModelMachineTests {
  @Test("every state that it passes through is seen, as the model tells it")
  func passing() async throws {
    let example = AsyncStateMachineSequence(
      stateMachine: ModelMachine<ExampleModel>.stateMachine(NoParameters()),
      runtime: ModelMachine<ExampleModel>.runtime(NoParameters(), Ports()))
    let states = example.makeAsyncIterator()
    #expect(await states.next() == .state1(message: "start"))
    for param in 1...20 {
      let outcome = await example.send(.eventA)
      guard case .moved(.state3(let message)) = outcome else {
        return #expect(Bool(false), "\(outcome)")
      }
      #expect(await states.next() == .state2(message: String(message.dropLast(", done".count))))
      #expect(await states.next() == .state3(message: message))
      #expect(await example.send(.eventB(param: param)) == .moved(.state1(message: "\(param)")))
      #expect(await states.next() == .state1(message: "\(param)"))
    }
  }

  @Test("send resumes in a state on the way")
  @MainActor
  func resuming() async throws {
    let view = ViewState(
      AsyncStateMachineSequence(
        stateMachine: ModelMachine<ExampleModel>.stateMachine(NoParameters()),
        runtime: ModelMachine<ExampleModel>.runtime(NoParameters(), Ports())))
    let outcome = await view.send(.eventA, resumeWhen: ExampleState.state2(message:))
    #expect(outcome == .moved(.state2(message: "start")))
  }

  @Test("a run that ends lets go of its model, whose own task still waits")
  func ending() async {
    let farewell = AsyncStream.makeStream(of: Void.self)
    await Guest.$farewell.withValue(farewell.continuation) {
      let guest = AsyncStateMachineSequence(
        stateMachine: ModelMachine<Guest>.stateMachine(NoParameters()),
        runtime: ModelMachine<Guest>.runtime(NoParameters(), Ports()))
      #expect(await guest.send(.look) == .moved(.open))
      guest.finish()
    }
    for await _ in farewell.stream {}
    #expect(!Task.isCancelled)
  }
}
