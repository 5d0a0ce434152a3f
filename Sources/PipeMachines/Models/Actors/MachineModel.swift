/// A running machine as a model.
public actor MachineModel<Hosted: Machine>: StateMachineProtocol
where Hosted.State: StateProtocol {
  /// The machine's states.
  public typealias State = Hosted.State

  private let sequence: AsyncStateMachineSequence<Hosted.State, Hosted.Event, Hosted.Output>
  private let subject: ConcurrentValueSubject<State>

  /// Starts a machine.
  /// - Throws: ``UnstableStateError`` where its initial state is not stable.
  public init(
    _: Hosted.Type, parameters: Hosted.Parameters, ports: Ports = Ports()
  ) throws(UnstableStateError) {
    let machine = Hosted.stateMachine(parameters)
    let subject = try ConcurrentValueSubject(startsWith: machine.initial)
    self.subject = subject
    let runtime = Hosted.runtime(parameters, ports)
      .register(middleware: { (state: Hosted.State) in subject.send(state) })
    sequence = AsyncStateMachineSequence(stateMachine: machine, runtime: runtime)
  }

  deinit { sequence.finish() }

  /// The current state.
  public nonisolated var state: State { subject.state }

  /// The current state, then each state as it is entered.
  public nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  /// Has the machine take an event, after those sent before it.
  public nonisolated func send(_ event: Hosted.Event) { sequence.post(event) }
}
