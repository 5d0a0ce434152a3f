import Nodes
import PipeRuntime
import TestTraits
import Testing

/// A model with a pipe from its intermediate state, and a pipe for its events.
private actor Door: HostableModel {
  enum State: MachineState, StateProtocol, Hashable {
    case shut, opening, open

    var isStable: Bool { self != .opening }
  }

  enum Event: MachineEvent { case push }

  private let subject: ConcurrentValueSubject<State>

  init(startsWith state: State, _ parameters: NoParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
  }

  static func initialState(_ parameters: NoParameters) -> State { .shut }

  static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
    Runtime()
      .connectAsSender(to: ports.pipe("bell"), when: State.opening, send: Bell.Event.ring)
      .connectAsReceiver(to: ports.pipe("hand"))
  }

  nonisolated var state: State { subject.state }
  nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  func take(_ event: Event) async {
    guard subject.state == .shut else { return }
    subject.send(.opening)
    await Task.yield()
    subject.send(.open)
  }
}

/// A model with a task that lives as long as the model. Its `deinit` finishes a stream.
private actor Guest: HostableModel {
  typealias State = Door.State
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

/// A model that throws only after it has entered its intermediate state.
private actor Stumbler: HostableModel {
  typealias State = Door.State
  enum Event: MachineEvent { case push }
  struct Stumble: Error {}

  private let subject: ConcurrentValueSubject<State>

  init(startsWith state: State, _ parameters: NoParameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
  }

  static func initialState(_ parameters: NoParameters) -> State { .shut }

  nonisolated var state: State { subject.state }
  nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  func take(_ event: Event) async throws {
    subject.send(.opening)
    await Task.yield()
    throw Stumble()
  }
}

private enum Bell: Machine {
  enum State: MachineState, Equatable { case rung(times: Int) }
  enum Event: MachineEvent { case ring }

  static func stateMachine(_ parameters: NoParameters) -> StateMachine<State, Event, Never> {
    StateMachine(
      initial: .rung(times: 0),
      reducer: { state, _ in
        if case .rung(let times) = state { state = .rung(times: times + 1) }
      })
  }
}

@Suite("A model as a machine in one process", .stallLimit(.seconds(60)))
struct ModelMachineTests {
  @Test("A reader sees every state that a model passes through, in order")
  func passing() async throws {
    let example = AsyncStateMachineSequence(
      stateMachine: ModelMachine<ExampleModel>.stateMachine(NoParameters()),
      runtime: ModelMachine<ExampleModel>.runtime(NoParameters(), Ports()))
    let states = example.makeAsyncIterator()
    #expect(await states.next() == .state1(message: "start"))
    for param in 1...20 {
      let outcome = await example.send(.eventA)
      guard case .accepted(.state3(let message)) = outcome else {
        return #expect(Bool(false), "\(outcome)")
      }
      #expect(await states.next() == .state2(message: String(message.dropLast(", done".count))))
      #expect(await states.next() == .state3(message: message))
      #expect(await example.send(.eventB(param: param)) == .accepted(.state1(message: "\(param)")))
      #expect(await states.next() == .state1(message: "\(param)"))
    }
  }

  @Test(
    "A model that throws in an intermediate state refuses the event and returns to its former state"
  )
  func stumbling() async throws {
    let stumbler = AsyncStateMachineSequence(
      stateMachine: ModelMachine<Stumbler>.stateMachine(NoParameters()), runtime: Runtime())
    let states = stumbler.makeAsyncIterator()
    #expect(await states.next() == .shut)
    for _ in 0..<3 {
      #expect(await stumbler.send(.push) == .refused(.thrown("Stumble()")))
      #expect(await states.next() == .opening)
      #expect(await states.next() == .shut)
      #expect(stumbler.state == .shut)
    }
  }

  @Test("'send(_:resumeWhen:)' resumes in an intermediate state")
  @MainActor
  func resuming() async throws {
    let view = ViewState(
      AsyncStateMachineSequence(
        stateMachine: ModelMachine<ExampleModel>.stateMachine(NoParameters()),
        runtime: ModelMachine<ExampleModel>.runtime(NoParameters(), Ports())))
    let outcome = await view.send(.eventA, resumeWhen: ExampleState.state2(message:))
    #expect(outcome == .accepted(.state2(message: "start")))
  }

  @Test("A run that ends releases its model, even if the model's own task still waits")
  func ending() async {
    let farewell = AsyncStream.makeStream(of: Void.self)
    await Guest.$farewell.withValue(farewell.continuation) {
      let guest = AsyncStateMachineSequence(
        stateMachine: ModelMachine<Guest>.stateMachine(NoParameters()),
        runtime: ModelMachine<Guest>.runtime(NoParameters(), Ports()))
      #expect(await guest.send(.look) == .accepted(.open))
      guest.finish()
    }
    for await _ in farewell.stream {}
    #expect(!Task.isCancelled)
  }

  @Test("A model's pipes send an intermediate state once and deliver events to the model")
  func ports() async throws {
    let ports = Ports()
    let hand: Pipe<Door.Event> = ports.pipe("hand")
    let bellPipe: Pipe<Bell.Event> = ports.pipe("bell")
    let bell = AsyncStateMachineSequence(
      stateMachine: Bell.stateMachine(NoParameters()),
      runtime: Runtime().connectAsReceiver(to: bellPipe))
    let pusher = AsyncStateMachineSequence(
      stateMachine: Bell.stateMachine(NoParameters()),
      runtime: Runtime().connectAsSender(
        to: hand, when: Bell.State.rung(times: 1), send: Door.Event.push))
    let door = AsyncStateMachineSequence(
      stateMachine: ModelMachine<Door>.stateMachine(NoParameters()),
      runtime: ModelMachine<Door>.runtime(NoParameters(), ports))
    await pusher.send(.ring)
    for await state in door where state == .open { break }
    for await state in bell where state == .rung(times: 1) { break }
    await door.send(.push)
    #expect(bell.state == .rung(times: 1))
  }
}
