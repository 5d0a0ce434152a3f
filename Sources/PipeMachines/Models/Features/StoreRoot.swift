/// The state behind a store and all stores scoped from it, and the steps that wait for their turn.
///
/// All of it is on the main actor: a step that waits for nothing goes to no other thread.
@MainActor
final class StoreRoot<State: Sendable> {
  /// Goes on from the state, in as long as it takes.
  typealias Run = @MainActor @Sendable (State) async -> State

  /// Says which action a step takes.
  typealias Name = @Sendable () -> String

  private typealias Work = @MainActor @Sendable () async -> Void

  private enum Step {
    /// Changes the state; edits are numbered in their order, from 1.
    case edit(number: Int, @Sendable (inout State) -> Void)
    case run(Run, Name, Caller?)
  }

  /// A task that waits for a step.
  private struct Caller {
    let continuation: CheckedContinuation<Void, Never>
    /// The step that the task is in the middle of.
    let step: AwaitedStep?
  }

  /// The state that the last step has led to, and the last edit that it has.
  private var entered: (value: State, edit: Int)
  private let subject: ConcurrentValueSubject<EditedState<State>>
  private var lastEdit = 0
  /// The steps that wait, from `next` on.
  private var waiting: [Step] = []
  private var next = 0
  /// Whether steps are being taken.
  private var isTaking = false
  /// Takes steps, one after the other, as long as there are any.
  private var taking: Task<Void, Never>?

  init(_ initial: State) {
    entered = (initial, 0)
    subject = ConcurrentValueSubject(EditedState(initial))
  }

  isolated deinit {
    taking?.cancel()
    for case .run(_, _, let caller?) in waiting[next...] { caller.continuation.resume() }
  }

  /// The state, with what has been edited while an action is being taken.
  var state: State { subject.state.value }
  var changes: StatePublisher<Void> { subject.eraseToAnyPublisher().projected { _ in } }

  func edit(_ change: @escaping @Sendable (inout State) -> Void) {
    lastEdit += 1
    guard isTaking else { return take(change, number: lastEdit) }
    // Shown before it can be taken: what has been entered with it is not edited with it again.
    subject.update { [lastEdit] in $0.edit(number: lastEdit, change) }
    waiting.append(.edit(number: lastEdit, change))
  }

  /// Nothing is done before this returns: a view may be setting something.
  func post(_ step: @escaping Run, _ name: @escaping Name) {
    add(.run(step, name, nil)) { Task(operation: $0) }
  }

  /// Takes a step, and returns once it is taken. A step cannot wait for another one of its own store, which is
  /// taken after it: then this returns at once.
  func send(_ step: @escaping Run, _ name: @escaping Name) async {
    let (own, caller) = (ObjectIdentifier(self), AwaitedStep.ofCaller)
    if let deadlock = caller?.deadlock(sending: name(), to: own) {
      Warnings.tell(
        "a store: \(deadlock). The send does not wait; post the action with 'store.send' and no 'await'"
      )
      return post(step, name)
    }
    if caller == nil { AwaitedStep.watch(sending: name(), to: own) }
    await withCheckedContinuation {
      add(.run(step, name, Caller(continuation: $0, step: caller)), begin: Self.beginAtOnce)
    }
  }

  private func add(_ step: Step, begin: (@escaping Work) -> Task<Void, Never>) {
    waiting.append(step)
    guard !isTaking else { return }
    isTaking = true
    // A task of its own: who asks for a step may be cancelled, and the step is taken all the same.
    taking = begin { [weak self] in
      while let step = self?.takeOut() {
        switch step {
        case .edit(let number, let change): self?.take(change, number: number)
        case .run(let run, let name, let caller):
          // Without the store, which may be let go of meanwhile.
          if let (state, step) = self?.begin(name, awaitedBy: caller?.step) {
            let led = await step.perform { await run(state) }
            self?.enter(led)
          }
          guard let caller else { continue }
          caller.continuation.resume()
          // It has its turn before the next step, and sees the state that its own has led to.
          if self?.hasWaiting == true { await Task.yield() }
        }
      }
    }
  }

  /// Begins work at once, and has it go on in a task of its own where it waits for something: a turn of the
  /// main thread takes longer than most steps.
  private static func beginAtOnce(_ work: @escaping Work) -> Task<Void, Never> {
    #if canImport(Darwin)
      // Not every system that the package is for has tasks that begin at once.
      Task(operation: work)
    #else
      Task.immediate(operation: work)
    #endif
  }

  private var hasWaiting: Bool { next < waiting.count }

  /// The step whose turn it is; `nil` where none waits.
  private func takeOut() -> Step? {
    guard hasWaiting else {
      waiting.removeAll(keepingCapacity: true)
      (next, isTaking) = (0, false)
      return nil
    }
    defer { next += 1 }
    // What has been taken does not pile up where there is always more.
    if next >= 64 {
      waiting.removeFirst(next)
      next = 0
    }
    return waiting[next]
  }

  private func take(_ change: @Sendable (inout State) -> Void, number: Int) {
    entered.edit = number
    change(&entered.value)
    enter(entered.value)
  }

  private func begin(
    _ name: @escaping Name, awaitedBy outer: AwaitedStep?
  ) -> (State, AwaitedStep) {
    (entered.value, AwaitedStep(of: ObjectIdentifier(self), name, awaitedBy: outer))
  }

  private func enter(_ state: State) {
    entered.value = state
    subject.update { [edit = entered.edit] in $0.enter(state, edit: edit) }
  }
}
