import Observation

/// The state of a model on the main actor, for a view that shows the state.
///
/// The class is observable: code that reads ``state`` within `withObservationTracking`, as views
/// do, is notified when the state changes.
@MainActor
@Observable
public final class ViewBinding<State: Sendable> {
  /// The state that the view shows.
  public private(set) var state: State
  @ObservationIgnored private var followTask: Task<Void, Never>?

  /// Makes an object that follows the state of a model as long as the object exists.
  public init<Model: StateMachineProtocol>(source: Model) where Model.State == State {
    state = source.state
    // Subscribes here and not in the task, which may start late, so that no state is missed.
    let states = source.stateDidChange.subscribedStates()
    followTask = Task { [weak self] in
      for await state in states {
        guard let self else { return }
        self.state = state
      }
    }
  }

  isolated deinit { followTask?.cancel() }
}
