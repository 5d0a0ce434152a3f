/// The state that a store shares with the stores scoped from it, and the queued steps.
///
/// Everything runs on the main actor. A step that does not wait never switches to another thread.
@MainActor
final class StoreRoot<State: Sendable> {
  /// An asynchronous step, which returns the next state.
  typealias Run = @MainActor @Sendable (State) async -> State

  /// Returns the name of the action of a step.
  typealias Name = @Sendable () -> String

  private typealias Work = @MainActor @Sendable () async -> Void

  private enum Step {
    /// A change of the state. Edits are numbered from 1, in the order in which they are made.
    case edit(number: Int, @Sendable (inout State) -> Void)
    case run(Run, Name, WaitingTask?)
  }

  /// A task that waits for a step.
  private struct WaitingTask {
    let continuation: CheckedContinuation<Void, Never>
    /// The unfinished step that the waiting task itself performs.
    let step: PendingStep?
  }

  /// The state after the last step, and the number of the last edit that it includes.
  private var latestState: (value: State, edit: Int)
  private let subject: ConcurrentValueSubject<EditedState<State>>
  private var lastEdit = 0
  /// The queued steps, beginning at index `next`.
  private var queuedSteps: [Step] = []
  private var next = 0
  /// Whether a task is taking the queued steps.
  private var isDraining = false
  /// The task that takes the queued steps, one at a time.
  private var drainTask: Task<Void, Never>?

  init(_ initial: State) {
    latestState = (initial, 0)
    subject = ConcurrentValueSubject(EditedState(initial))
  }

  isolated deinit {
    drainTask?.cancel()
    for case .run(_, _, let caller?) in queuedSteps[next...] { caller.continuation.resume() }
  }

  /// The state, with the edits that were made during a running action.
  var state: State { subject.state.value }
  var changes: StatePublisher<Void> { subject.eraseToAnyPublisher().projected { _ in } }

  func edit(_ change: @escaping @Sendable (inout State) -> Void) {
    lastEdit += 1
    guard isDraining else { return take(change, number: lastEdit) }
    // Applies the edit to the visible state before it queues the edit. Otherwise, the edit could be
    // applied a second time to a state that already includes it.
    subject.update { [lastEdit] in $0.edit(number: lastEdit, change) }
    queuedSteps.append(.edit(number: lastEdit, change))
  }

  /// Queues a step. The step is not taken before this function returns, because a view may be
  /// setting a value.
  func post(_ step: @escaping Run, _ name: @escaping Name) {
    add(.run(step, name, nil)) { Task(operation: $0) }
  }

  /// Queues a step and waits until the step is taken. If a step of the same store is the caller,
  /// waiting would be a deadlock, so this function returns at once.
  func send(_ step: @escaping Run, _ name: @escaping Name) async {
    let (own, caller) = (ObjectIdentifier(self), PendingStep.ofCaller)
    if let deadlock = caller?.deadlock(sending: name(), to: own) {
      Warnings.tell(
        "deadlock in a store: \(deadlock); the send does not wait; call 'store.send' "
          + "without 'await'"
      )
      return post(step, name)
    }
    if caller == nil { PendingStep.watch(sending: name(), to: own) }
    await withCheckedContinuation {
      add(.run(step, name, WaitingTask(continuation: $0, step: caller)), begin: Self.beginAtOnce)
    }
  }

  private func add(_ step: Step, begin: (@escaping Work) -> Task<Void, Never>) {
    queuedSteps.append(step)
    guard !isDraining else { return }
    isDraining = true
    // In a separate task: if the caller is cancelled, the step is taken nevertheless.
    drainTask = begin { [weak self] in
      while let step = self?.dequeueStep() {
        switch step {
        case .edit(let number, let change): self?.take(change, number: number)
        case .run(let run, let name, let caller):
          // The step must not keep the store alive while it runs.
          if let (state, step) = self?.begin(name, awaitedBy: caller?.step) {
            let nextState = await step.perform { await run(state) }
            self?.enter(nextState)
          }
          guard let caller else { continue }
          caller.continuation.resume()
          // Lets the caller run before the next step, so that the caller finds the state that its
          // own step has produced.
          if self?.hasQueuedSteps == true { await Task.yield() }
        }
      }
    }
  }

  /// Starts work on the current thread at once. If the work has to wait, it continues as a task.
  /// Scheduling a task on the main thread takes longer than most steps.
  private static func beginAtOnce(_ work: @escaping Work) -> Task<Void, Never> {
    #if canImport(Darwin)
      // Tasks that start at once are not available in all supported versions of Apple's systems.
      Task(operation: work)
    #else
      Task.immediate(operation: work)
    #endif
  }

  private var hasQueuedSteps: Bool { next < queuedSteps.count }

  /// Removes and returns the next step; `nil` if none is queued.
  private func dequeueStep() -> Step? {
    guard hasQueuedSteps else {
      queuedSteps.removeAll(keepingCapacity: true)
      (next, isDraining) = (0, false)
      return nil
    }
    defer { next += 1 }
    // Removes the steps already taken, because the queue may never become empty.
    if next >= 64 {
      queuedSteps.removeFirst(next)
      next = 0
    }
    return queuedSteps[next]
  }

  private func take(_ change: @Sendable (inout State) -> Void, number: Int) {
    latestState.edit = number
    change(&latestState.value)
    enter(latestState.value)
  }

  private func begin(
    _ name: @escaping Name, awaitedBy outer: PendingStep?
  ) -> (State, PendingStep) {
    (latestState.value, PendingStep(of: ObjectIdentifier(self), name, awaitedBy: outer))
  }

  private func enter(_ state: State) {
    latestState.value = state
    subject.update { [edit = latestState.edit] in $0.enter(state, edit: edit) }
  }
}
