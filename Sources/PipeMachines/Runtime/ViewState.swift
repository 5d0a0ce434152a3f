import Observation
import PipeSupport

/// The state of a machine on the main actor, for a user interface that shows the state and sends
/// events.
///
/// The class is observable: code that reads ``state`` within `withObservationTracking`, as views
/// do, is notified when the state changes. The state follows the machine while ``start()`` runs.
///
/// ```swift
/// let viewState = ViewState(sequence)
/// let task = Task { await viewState.start() }
/// await viewState.send(.closeButtonWasPressed)
/// ```
@MainActor
@Observable
public final class ViewState<State: Sendable, Event: DSLCompatible, Output: DSLCompatible> {
  /// The state that the user interface shows.
  public private(set) var state: State

  @ObservationIgnored private let source: ViewSource<State, Event>
  @ObservationIgnored private var isStarted = false
  @ObservationIgnored private var posted = Queue<Event>()
  @ObservationIgnored private var isSending = false
  @ObservationIgnored let timers = ViewTimers()

  /// Makes a view state that shows the state of a machine unchanged.
  public convenience init(
    _ sequence: AsyncStateMachineSequence<State, Event, Output>
  ) where State: DSLCompatible {
    self.init(sequence, project: { $0 })
  }

  /// Makes a view state that shows a projection of a machine's state, with only the data that a
  /// view needs.
  /// - Parameter project: Makes the state to show from the machine's state. Called for each state.
  public init<Origin>(
    _ sequence: AsyncStateMachineSequence<Origin, Event, Output>,
    project: @escaping @Sendable (Origin) -> State
  ) {
    source = ViewSource(sequence, project)
    state = project(sequence.state)
  }

  /// Makes a view state that shows the states of a source.
  package init(showing state: State, of source: ViewSource<State, Event>) {
    self.source = source
    self.state = state
  }

  /// Follows the machine until its run ends or the task is cancelled.
  ///
  /// If there is no other iterator, cancelling the task ends the run. A second call during the
  /// first call returns immediately.
  public func start() async {
    guard !isStarted else { return }
    isStarted = true
    defer { isStarted = false }
    let next = source.readStates()
    while let state = await next() { self.state = state }
  }

  /// Sends an event and waits until the machine has processed it. ``state`` is updated afterwards.
  @discardableResult
  public func send(_ event: Event) async -> SendOutcome<State> { await source.send(event) }

  /// Sends an event and waits until the machine enters a state that satisfies the predicate.
  ///
  /// The function considers every state that the machine enters after the call. The function
  /// returns early if the event is refused, or if the run ends. If the task is cancelled, the
  /// function returns as if the run had ended.
  @discardableResult
  public func send(
    _ event: Event, resumeWhen isAwaited: (State) -> Bool
  ) async -> SendOutcome<State> {
    let (outcome, next) = await source.transmitFollowing(event)
    guard case .accepted = outcome else { return outcome }
    while let state = await next() {
      if isAwaited(state) { return .accepted(state) }
    }
    return .finished
  }

  /// Queues an event behind the events posted before it, and does not wait.
  func post(_ event: Event) {
    posted.append(event)
    guard !isSending else { return }
    isSending = true
    Task {
      while let event = posted.popFirst() { await source.send(event) }
      isSending = false
    }
  }
}

extension ViewState where State: DSLCompatible {
  /// Sends an event and waits until the machine enters the case of `state`. Associated values are
  /// ignored.
  @discardableResult
  public func send(_ event: Event, resumeWhen state: State) async -> SendOutcome<State> {
    let pattern = CasePattern(value: state)
    return await send(event) { pattern.matches($0) }
  }

  /// Sends an event and waits until the machine enters the case that the constructor makes.
  @discardableResult
  public func send<each Value>(
    _ event: Event, resumeWhen state: (repeat each Value) -> State
  ) async -> SendOutcome<State> {
    let pattern = CasePattern(constructor: state)
    return await send(event) { pattern.matches($0) }
  }

  /// Sends an event and waits until the machine enters one of several cases.
  @discardableResult
  public func send(_ event: Event, resumeWhen states: OneOf<State>) async -> SendOutcome<State> {
    await send(event) { states.contains($0) }
  }
}

/// The machine that is the source of a view state.
package struct ViewSource<State: Sendable, Event: DSLCompatible> {
  package typealias States = @MainActor () async -> State?

  /// Begins to read the states. Each call of the returned function returns one state, beginning
  /// with the current state.
  let readStates: @MainActor () -> States
  let transmit: @MainActor (Event) async -> SendOutcome<State>
  /// Sends an event. Also returns the states that the machine enters, beginning with the step on
  /// this event.
  let transmitFollowing: @MainActor (Event) async -> (SendOutcome<State>, States)

  package init(
    states: @escaping @MainActor () -> States,
    transmit: @escaping @MainActor (Event) async -> SendOutcome<State>,
    transmitFollowing: @escaping @MainActor (Event) async -> (SendOutcome<State>, States)
  ) {
    self.readStates = states
    self.transmit = transmit
    self.transmitFollowing = transmitFollowing
  }

  init<Origin, Output>(
    _ sequence: AsyncStateMachineSequence<Origin, Event, Output>,
    _ project: @escaping @Sendable (Origin) -> State
  ) {
    let states: @MainActor () -> States = {
      let iterator = sequence.makeIteratorFromCurrentState()
      return { await iterator.next(isolation: MainActor.shared).map(project) }
    }
    let transmit: @MainActor (Event) async -> SendOutcome<State> = { event in
      switch await sequence.send(event) {
      case .accepted(let state): .accepted(project(state))
      case .refused(let refusal): .refused(refusal)
      case .finished: .finished
      }
    }
    self.init(
      states: states, transmit: transmit,
      transmitFollowing: { event in
        let next = states()
        // Skips the current state, which the machine entered before the call.
        guard await next() != nil else { return (.finished, next) }
        return (await transmit(event), next)
      })
  }

  @discardableResult
  @MainActor
  func send(_ event: Event) async -> SendOutcome<State> { await transmit(event) }
}
