/// The state behind a store and all stores scoped from it: a machine whose events are steps.
@MainActor
final class StoreRoot<State: Sendable> {
  /// One step.
  enum Step: DSLCompatible {
    /// Changes the state at once; edits are numbered in their order, from 1.
    case edit(number: Int, @Sendable (inout State) -> Void)
    /// Goes on from the state, in as long as it takes.
    case run(@MainActor @Sendable (State) async -> State)
  }

  struct Held: DSLCompatible {
    var value: State
    /// The number of the last edit that the value has.
    var edit = 0
  }

  private let run: AsyncStateMachineSequence<Held, Step, Never>
  private let subject: ConcurrentValueSubject<EditedState<State>>
  private var lastEdit = 0

  init(_ initial: State) {
    let subject = ConcurrentValueSubject(EditedState(initial))
    self.subject = subject
    run = AsyncStateMachineSequence(
      stateMachine: StateMachine(initial: Held(value: initial)) { state, step in
        switch step {
        case .edit(let number, let edit):
          var next = Held(value: state.value, edit: number)
          edit(&next.value)
          return .next(next)
        case .run(let run):
          return .suspended { Held(value: await run(state.value), edit: state.edit) }
        }
      },
      runtime: Runtime().register(middleware: { (state: Held) in
        subject.update { $0.enter(state.value, edit: state.edit) }
      }))
  }

  isolated deinit { run.finish() }

  /// The state, with what has been edited while an action is being taken.
  var state: State { subject.state.value }
  var changes: StatePublisher<Void> { subject.eraseToAnyPublisher().projected { _ in } }

  func edit(_ change: @escaping @Sendable (inout State) -> Void) {
    lastEdit += 1
    let step = Step.edit(number: lastEdit, change)
    if run.takeIfIdle(step) { return }
    // Shown before it can be taken: what has been entered with it is not edited with it again.
    subject.update { [lastEdit] in $0.edit(number: lastEdit, change) }
    run.post(step)
  }

  func post(_ step: @escaping @MainActor @Sendable (State) async -> State) {
    run.post(.run(step))
  }

  func send(_ step: @escaping @MainActor @Sendable (State) async -> State) async {
    await run.send(.run(step))
  }
}
