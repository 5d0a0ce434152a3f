/// The state that a store shares with the stores for its parts, and the queued steps.
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
    /// An edit: a change of the state that is not an action. Edits are numbered from 1, in the
    /// order in which they are made.
    case edit(number: Int, @Sendable (inout State) -> Void)
    case run(Run, Name, WaitingTask?)
  }

  /// A task that waits for a step.
  private struct WaitingTask {
    let continuation: CheckedContinuation<Void, Never>
    /// The unfinished step that the waiting task itself performs; `nil` if the task performs none.
    let step: PendingStep?
  }

  /// The state after the last step, and the number of the last edit that this state includes.
  private var latestState: (value: State, edit: Int)
  private let subject: ConcurrentValueSubject<EditedState<State>>
  private var lastEditNumber = 0
  /// The queued steps, beginning at index `nextIndex`.
  private var queuedSteps: [Step] = []
  private var nextIndex = 0
  /// Whether a task is processing the queued steps.
  private var isDraining = false
  /// The task that processes the queued steps, one at a time.
  private var drainTask: Task<Void, Never>?

  init(_ initial: State) {
    latestState = (initial, 0)
    subject = ConcurrentValueSubject(EditedState(initial))
  }

  isolated deinit {
    drainTask?.cancel()
    for case .run(_, _, let caller?) in queuedSteps[nextIndex...] { caller.continuation.resume() }
  }

  /// The state, with the edits that were made during a running action.
  var state: State { subject.state.value }
  var changes: StatePublisher<Void> { subject.eraseToAnyPublisher().projected { _ in } }

  func edit(_ change: @escaping @Sendable (inout State) -> Void) {
    lastEditNumber += 1
    guard isDraining else { return applyEdit(change, number: lastEditNumber) }
    // Applies the edit to the visible state before it queues the edit. Otherwise, the edit could be
    // applied a second time to a state that already includes it.
    subject.update { [lastEditNumber] in $0.edit(number: lastEditNumber, change) }
    queuedSteps.append(.edit(number: lastEditNumber, change))
  }

  /// Queues a step. The step begins only after this function has returned, because the caller may
  /// be a view that is setting a value.
  func post(_ step: @escaping Run, _ name: @escaping Name) {
    add(.run(step, name, nil)) { Task(operation: $0) }
  }

  /// Queues a step and waits until the step is taken. If the caller is a step of the same store,
  /// waiting would be a deadlock, so this function logs a warning and returns immediately.
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
    // Runs in a separate task, so that the step is taken even if the caller is cancelled.
    drainTask = begin { [weak self] in
      while let step = self?.dequeueStep() {
        switch step {
        case .edit(let number, let change): self?.applyEdit(change, number: number)
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

  /// Starts work on the current thread immediately. If the work has to wait, it continues as a
  /// task. Scheduling a task on the main thread takes longer than most steps.
  private static func beginAtOnce(_ work: @escaping Work) -> Task<Void, Never> {
    #if canImport(Darwin)
      // Tasks that start immediately are not available in all supported versions of Apple's
      // systems.
      Task(operation: work)
    #else
      Task.immediate(operation: work)
    #endif
  }

  private var hasQueuedSteps: Bool { nextIndex < queuedSteps.count }

  /// Removes and returns the next step; `nil` if none is queued.
  private func dequeueStep() -> Step? {
    guard hasQueuedSteps else {
      queuedSteps.removeAll(keepingCapacity: true)
      (nextIndex, isDraining) = (0, false)
      return nil
    }
    defer { nextIndex += 1 }
    // From time to time, removes the finished steps, because the queue may never become empty.
    if nextIndex >= 64 {
      queuedSteps.removeFirst(nextIndex)
      nextIndex = 0
    }
    return queuedSteps[nextIndex]
  }

  private func applyEdit(_ change: @Sendable (inout State) -> Void, number: Int) {
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
