import PipeSupport

/// The model of one run of a machine, until the run releases the model. This object also stores the
/// model's intermediate states and announced changes: changes that the model has made by itself,
/// and that are not part of a step yet.
final class HostedModel<Model: HostableModel>: Sendable {
  typealias State = Model.State
  /// Announces an event for a change that the model has made by itself.
  typealias Announce = @Sendable (Model.Event, Announcement) -> Void

  /// A change that the model has made by itself.
  struct Change: Sendable {
    let state: State
    /// The tag of the case of the event that describes the change.
    let tag: Int?
    let announcement: Announcement
  }

  private struct Content {
    /// The state of the machine after its last step.
    var settledState: State
    /// The announced changes, in order.
    var announcedChanges: [Change] = []
    /// The state after the last change that was examined, whether or not the change has an event.
    /// `nil` if no change has been examined since the last step.
    var lastExaminedState: State?
    var isStepping = false
    /// The function that announces changes; `nil` if changes are not announced, or not announced
    /// yet.
    var announce: Announce?
    var followTask: Task<Void, Never>?
    var isOver = false

    /// Returns whether the model has entered this state by itself, and the change has not been
    /// examined yet. Such a state is stable, and no step has produced it.
    func isUnexplainedChange(_ state: State) -> Bool {
      announce != nil && !isStepping && state.isStable && state != settledState
        && state != lastExaminedState
    }
  }

  private let parameters: Model.Parameters
  private let startState: State
  private let createdModel = Locked<Model?>(nil)
  private let stateBuffer = IntermediateStateBuffer<State>()
  private let subscription = Locked<StatePublisher<State>.Cancellation?>(nil)
  private let content: Locked<Content>

  init(in state: State, _ parameters: Model.Parameters) {
    startState = state
    self.parameters = parameters
    content = Locked(Content(settledState: state))
  }

  deinit { release() }

  /// The state of the machine after its last step.
  var settledState: State { content.withLock(\.settledState) }

  /// Returns the model. Makes the model in the first call.
  func model() throws -> Model {
    try createdModel.withLock { createdModel in
      if let createdModel { return createdModel }
      let model = try Model(startsWith: startState.stable(), parameters)
      createdModel = model
      let stateBuffer = stateBuffer
      let cancel = model.stateDidChange.subscribe({ stateBuffer.enter($0) }, {})
      subscription.withLock { $0 = cancel }
      return model
    }
  }

  /// Releases the model, even if it is processing an event, and withdraws its announced changes.
  func release() {
    let followTask = content.withLock { content in
      content.isOver = true
      content.announce = nil
      for change in content.announcedChanges { change.announcement.withdraw() }
      content.announcedChanges = []
      defer { content.followTask = nil }
      return content.followTask
    }
    followTask?.cancel()
    stateBuffer.close()
    let cancel = subscription.withLock { subscription in
      defer { subscription = nil }
      return subscription
    }
    cancel?()
  }

  // MARK: Steps on events

  /// Passes an event to the model, and waits until the model's state is stable.
  /// - Parameter reportState: Called with each intermediate state.
  /// - Returns: The stable state. Call ``settle(in:)`` when the machine enters it.
  func take(
    _ event: Model.Event, _ reportState: (@Sendable (State) -> Void)?
  ) async throws -> State {
    let model = try model()
    content.withLock { $0.isStepping = true }
    stateBuffer.beginStep(reportState ?? { _ in })
    try await model.take(event)
    return await settledState(of: model)
  }

  /// Waits until the model's state is stable, and returns that state.
  private func settledState(of model: Model) async -> State {
    var attempts = 0
    while true {
      var state = model.state
      if !state.isStable {
        for await next in model.stateDidChange where next.isStable {
          state = next
          break
        }
      }
      attempts += 1
      if stateBuffer.endStep(in: state, isLate: attempts == Self.maximumAttemptCount) {
        return state
      }
      // The model has changed again, or its publisher has not delivered the state yet.
      await Task.yield()
    }
  }

  /// The maximum number of times that a step waits for the model's publisher to deliver the model's
  /// state.
  private static var maximumAttemptCount: Int { 100 }

  /// Called when the machine has taken the step that ``take(_:_:)`` evaluated. The announced
  /// changes happened before that step, so they become part of the step.
  func settle(in state: State) {
    content.withLock { content in
      content.isStepping = false
      content.settledState = state
      content.lastExaminedState = nil
      for change in content.announcedChanges { change.announcement.withdraw() }
      content.announcedChanges = []
    }
    checkForChange()
  }

  // MARK: Changes by the model itself

  /// Starts to announce each change of the model that no step has produced.
  func follow(_ announce: @escaping Announce) throws {
    let model = try model()
    let begins = content.withLock { content in
      guard !content.isOver, content.followTask == nil else { return false }
      content.announce = announce
      content.followTask = Task { [weak self, states = model.stateDidChange] in
        for await _ in states {
          guard !Task.isCancelled, let self else { return }
          checkForChange()
        }
      }
      return true
    }
    if begins { checkForChange() }
  }

  /// Announces the change if the model has changed by itself. The notification of a change may
  /// arrive later than the change.
  private func checkForChange() {
    guard let model = createdModel.withLock({ $0 }) else { return }
    let state = model.state
    guard content.withLock({ $0.isUnexplainedChange(state) }) else { return }
    let event = Model.event(forChangeTo: state)
    let isUndeclaredChange = content.withLock { content in
      // If this condition fails, the model has changed again, and there will be another
      // notification.
      guard content.isUnexplainedChange(state), model.state == state else { return false }
      content.lastExaminedState = state
      guard let event, let announce = content.announce else { return event == nil }
      let change = Change(
        state: state, tag: EnumCases.tag(of: event), announcement: Announcement())
      content.announcedChanges.append(change)
      announce(event, change.announcement)
      return false
    }
    guard isUndeclaredChange else { return }
    Self.warn(
      "the model changed to state '\(state)' without an event; return an event for this change "
        + "from 'event(forChangeTo:)'")
  }

  /// Returns the first announced change whose event has the same case as `event`; `nil` if there is
  /// none.
  func announcedChange(on event: Model.Event) -> Change? {
    checkForChange()
    let tag = EnumCases.tag(of: event)
    return content.withLock { content in content.announcedChanges.first { $0.tag == tag } }
  }

  /// Makes an announced change part of a step that the machine takes. Also withdraws all earlier
  /// changes.
  /// - Parameter reportState: Called with the model's intermediate states before the change.
  /// - Returns: `false` if the change has already been withdrawn.
  func pass(_ change: Change, _ reportState: (@Sendable (State) -> Void)?) -> Bool {
    let isPassed = content.withLock { content in
      guard
        let index = content.announcedChanges.firstIndex(where: {
          $0.announcement === change.announcement
        })
      else { return false }
      for change in content.announcedChanges[...index] { change.announcement.withdraw() }
      content.announcedChanges.removeSubrange(...index)
      content.settledState = change.state
      return true
    }
    if isPassed { stateBuffer.pass(through: change.state, reportState) }
    return isPassed
  }

  static func warn(_ text: String) {
    StandardError.write("warning: \(Model.self): \(text)\n")
  }
}

/// A model that a node can host.
///
/// ```swift
/// extension LampModel: HostableModel {
///   enum Event: MachineEvent { case toggle }
///   func take(_ event: Event) async { … }
/// }
/// ```
public protocol HostableModel: StateMachineProtocol
where State: MachineState & Equatable {
  /// The events, in the form in which they are sent between nodes.
  associatedtype Event: MachineEvent
  /// The parameters that a topology file can set.
  associatedtype Parameters: MachineParameters = NoParameters

  /// Returns the initial state of a node that has never run.
  static func initialState(_ parameters: Parameters) -> State

  /// Makes the model in a stable state.
  init(startsWith state: State, _ parameters: Parameters) throws

  /// Processes an event. Returns once the model has processed the event and its state is stable.
  ///
  /// Intermediate states are visible when they occur. Events that pipes derive from intermediate
  /// states are sent when the step is over.
  /// - Throws: An error to refuse the event. The node then replaces the model with a new model in
  ///   the previous state.
  func take(_ event: Event) async throws

  /// The events for which ``take(_:)`` affects only the model itself. Default: none. These events
  /// can be synchronized events of several nodes.
  ///
  /// For such an event, the node first makes a second model in the state of this model, and the
  /// second model processes the event. If all participants accept the event, the second model
  /// replaces this model, which is released with its tasks and everything else that it owns.
  /// Otherwise, this model continues unaffected. So ``init(startsWith:_:)`` can be called often.
  /// The initializer should only start work that belongs to the state.
  static var selfContained: SelfContainedEvents<Event> { get }

  /// Returns the runtime, which connects the model to named pipes. Default: no pipes.
  ///
  /// ```swift
  /// static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
  ///   Runtime()
  ///     .connectAsSender(to: ports.pipe("lamp"), when: State.on, send: LampEvent.light)
  ///     .connectAsReceiver(to: ports.pipe("switch"))
  /// }
  /// ```
  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never>

  /// Returns the event that describes a change to a stable state that the model has made by itself.
  /// When a node hosts the model, the change becomes a step on that event. The model does not
  /// process the event again.
  ///
  /// If the model processes another event before that step, the change becomes part of the step on
  /// the other event.
  ///
  /// Default: `nil`. If the model then changes by itself, the node logs a warning, and publishes
  /// the change with the step on the next event.
  static func event(forChangeTo state: State) -> Event?
}

extension HostableModel {
  /// The default: no events.
  public static var selfContained: SelfContainedEvents<Event> { .none }

  /// Returns a runtime without pipes.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> { Runtime() }

  /// Returns `nil`: the model does not declare events for its own changes.
  public static func event(forChangeTo state: State) -> Event? { nil }
}

/// A model that runs a machine.
public actor MachineModel<Hosted: Machine>: StateMachineProtocol
where Hosted.State: StateProtocol {
  /// The machine's states.
  public typealias State = Hosted.State

  private let sequence: AsyncStateMachineSequence<Hosted.State, Hosted.Event, Hosted.Output>
  private let subject: ConcurrentValueSubject<State>

  /// Starts a machine.
  /// - Throws: ``UnstableStateError`` if the machine's initial state is not stable.
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

  /// The current state, then each state that the machine enters.
  public nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  /// Queues an event behind the events sent before it.
  public nonisolated func send(_ event: Hosted.Event) { sequence.post(event) }
}
