import Observation

/// The state of a model for a view to show, on the main actor.
///
/// The class is observable: code that reads ``state`` within `withObservationTracking`, as views
/// do, is notified when the state changes.
@MainActor
@Observable
public final class ViewBinding<State: Sendable> {
  /// The state to show.
  public private(set) var state: State
  @ObservationIgnored private var followTask: Task<Void, Never>?

  /// Shows the state of a model for as long as the binding exists.
  public init<Model: StateMachineProtocol>(source: Model) where Model.State == State {
    state = source.state
    // Subscribed here, because the task may start late: no state is missed.
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
