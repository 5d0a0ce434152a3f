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
