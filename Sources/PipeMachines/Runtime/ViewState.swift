import Observation
import PipeSupport

/// The state of a machine for a user interface to show and to send events to, on the main actor.
///
/// It is observable: what reads ``state`` within `withObservationTracking`, as views do, is told when
/// it changes. It changes while ``start()`` runs.
///
/// ```swift
/// let viewState = ViewState(sequence)
/// let task = Task { await viewState.start() }
/// await viewState.send(.closeButtonWasPressed)
/// ```
@MainActor
@Observable
public final class ViewState<State: Sendable, Event: DSLCompatible, Output: DSLCompatible> {
  /// The state to show.
  public private(set) var state: State

  @ObservationIgnored private let source: ViewSource<State, Event>
  @ObservationIgnored private var isStarted = false
  @ObservationIgnored private var posted = Queue<Event>()
  @ObservationIgnored private var isSending = false
  @ObservationIgnored let timers = ViewTimers()

  /// Shows the state of a machine as it is.
  public convenience init(
    _ sequence: AsyncStateMachineSequence<State, Event, Output>
  ) where State: DSLCompatible {
    self.init(sequence, project: { $0 })
  }

  /// Shows what a view needs of the state of a machine.
  /// - Parameter project: Makes the state to show of the machine's; called for each of these.
  public init<Origin>(
    _ sequence: AsyncStateMachineSequence<Origin, Event, Output>,
    project: @escaping @Sendable (Origin) -> State
  ) {
    source = ViewSource(sequence, project)
    state = project(sequence.state)
  }

  /// Shows the state of what the source reaches.
  package init(showing state: State, of source: ViewSource<State, Event>) {
    self.source = source
    self.state = state
  }

  /// Follows the machine until its run ends, or until the task is cancelled.
  ///
  /// Where nobody else iterates, cancelling the task ends the run. A second call while the first is
  /// running returns at once.
  public func start() async {
    guard !isStarted else { return }
    isStarted = true
    defer { isStarted = false }
    let next = source.states()
    while let state = await next() { self.state = state }
  }

  /// Has the machine take an event, and returns once it has; ``state`` follows.
  @discardableResult
  public func send(_ event: Event) async -> SendOutcome<State> { await source.send(event) }

  /// Sends an event and returns when the machine enters a state that the predicate holds for.
  ///
  /// Every state entered since the call counts. If the event is refused, or if the run ends before,
  /// returns at once; so it does when the task is cancelled, as if the run had ended.
  @discardableResult
  public func send(
    _ event: Event, resumeWhen isAwaited: (State) -> Bool
  ) async -> SendOutcome<State> {
    let (outcome, next) = await source.transmitFollowing(event)
    guard case .moved = outcome else { return outcome }
    while let state = await next() {
      if isAwaited(state) { return .moved(state) }
    }
    return .finished
  }

  /// Sends without waiting, after what was posted before.
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
  /// Sends an event and returns when the machine enters the case that `state` is, whatever its
  /// associated values.
  @discardableResult
  public func send(_ event: Event, resumeWhen state: State) async -> SendOutcome<State> {
    let pattern = CasePattern(value: state)
    return await send(event) { pattern.matches($0) }
  }

  /// Sends an event and returns when the machine enters the case of this constructor.
  @discardableResult
  public func send<each Value>(
    _ event: Event, resumeWhen state: (repeat each Value) -> State
  ) async -> SendOutcome<State> {
    let pattern = CasePattern(constructor: state)
    return await send(event) { pattern.matches($0) }
  }

  /// Sends an event and returns when the machine enters one of several cases.
  @discardableResult
  public func send(_ event: Event, resumeWhen states: OneOf<State>) async -> SendOutcome<State> {
    await send(event) { states.contains($0) }
  }
}

/// A machine behind the state that is shown of it.
package struct ViewSource<State: Sendable, Event: DSLCompatible> {
  package typealias States = @MainActor () async -> State?

  /// Begins to read states, with the current one.
  let states: @MainActor () -> States
  let transmit: @MainActor (Event) async -> SendOutcome<State>
  /// Sends, and gives the states that are entered from the event's own step on.
  let transmitFollowing: @MainActor (Event) async -> (SendOutcome<State>, States)

  package init(
    states: @escaping @MainActor () -> States,
    transmit: @escaping @MainActor (Event) async -> SendOutcome<State>,
    transmitFollowing: @escaping @MainActor (Event) async -> (SendOutcome<State>, States)
  ) {
    self.states = states
    self.transmit = transmit
    self.transmitFollowing = transmitFollowing
  }

  init<Origin, Output>(
    _ sequence: AsyncStateMachineSequence<Origin, Event, Output>,
    _ project: @escaping @Sendable (Origin) -> State
  ) {
    let states: @MainActor () -> States = {
      let iterator = sequence.makeLateIterator()
      return { await iterator.next(isolation: MainActor.shared).map(project) }
    }
    let transmit: @MainActor (Event) async -> SendOutcome<State> = { event in
      switch await sequence.send(event) {
      case .moved(let state): .moved(project(state))
      case .refused(let refusal): .refused(refusal)
      case .finished: .finished
      }
    }
    self.init(
      states: states, transmit: transmit,
      transmitFollowing: { event in
        let next = states()
        // The current state comes first, and was not entered since.
        guard await next() != nil else { return (.finished, next) }
        return (await transmit(event), next)
      })
  }

  @discardableResult
  @MainActor
  func send(_ event: Event) async -> SendOutcome<State> { await transmit(event) }
}
