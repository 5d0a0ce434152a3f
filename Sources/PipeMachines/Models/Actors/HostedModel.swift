import PipeSupport

/// One model of a run, until it is let go of: what it goes through, and what it has announced, that is,
/// what it has done by itself and no step has been taken for.
final class HostedModel<Model: HostableModel>: Sendable {
  typealias State = Model.State
  /// Tells the run of an event that stands for what the model has done.
  typealias Announce = @Sendable (Model.Event, Announcement) -> Void

  /// What it has done by itself.
  struct Change: Sendable {
    let state: State
    /// The case of the event that stands for it.
    let tag: Int?
    let announcement: Announcement
  }

  private struct Content {
    /// Where the machine stands that the model stands for.
    var settled: State
    /// In their order.
    var announced: [Change] = []
    /// The last change that was looked at, with or without an event.
    var noted: State?
    var isStepping = false
    /// Told of changes; `nil` where nobody is to know of them, or not yet.
    var announce: Announce?
    var following: Task<Void, Never>?
    var isOver = false

    /// Whether the model has come to a state that no step has led to, and that was not looked at.
    func isNews(_ state: State) -> Bool {
      announce != nil && !isStepping && state.isStable && state != settled && state != noted
    }
  }

  private let parameters: Model.Parameters
  private let start: State
  private let made = Locked<Model?>(nil)
  private let passage = ModelPassage<State>()
  private let subscription = Locked<StatePublisher<State>.Cancellation?>(nil)
  private let content: Locked<Content>

  init(in state: State, _ parameters: Model.Parameters) {
    start = state
    self.parameters = parameters
    content = Locked(Content(settled: state))
  }

  deinit { letGo() }

  /// Where the machine stands that the model stands for.
  var settled: State { content.withLock(\.settled) }

  /// The model; made by whoever is the first to ask.
  func model() throws -> Model {
    try made.withLock { made in
      if let made { return made }
      let model = try Model(startsWith: start.stable(), parameters)
      made = model
      let passage = passage
      let cancel = model.stateDidChange.subscribe({ passage.enter($0) }, {})
      subscription.withLock { $0 = cancel }
      return model
    }
  }

  /// Lets go of the model, whatever it is doing, and of what it has announced.
  func letGo() {
    let following = content.withLock { content in
      content.isOver = true
      content.announce = nil
      for change in content.announced { change.announcement.withdraw() }
      content.announced = []
      defer { content.following = nil }
      return content.following
    }
    following?.cancel()
    passage.close()
    let cancel = subscription.withLock { subscription in
      defer { subscription = nil }
      return subscription
    }
    cancel?()
  }

  // MARK: Steps

  /// Leads the model to where an event leads.
  /// - Parameter tell: Told of the states on the way.
  /// - Returns: The stable state in which it comes to rest. The machine does not stand there before
  ///   ``settle(in:)``.
  func take(
    _ event: Model.Event, _ tell: (@Sendable (State) -> Void)?
  ) async throws -> State {
    let model = try model()
    content.withLock { $0.isStepping = true }
    passage.begin(tell ?? { _ in })
    try await model.take(event)
    return await rest(of: model)
  }

  /// Where the model comes to rest.
  private func rest(of model: Model) async -> State {
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
      if passage.end(in: state, isLate: attempts == Self.attempts) { return state }
      // It has moved on already, or its publisher lags behind it.
      await Task.yield()
    }
  }

  /// How often it is looked whether the model's publisher tells what its state is.
  private static var attempts: Int { 100 }

  /// The machine has taken the step to which ``take(_:_:)`` has led. What the model has announced was done
  /// before that, and is a part of it.
  func settle(in state: State) {
    content.withLock { content in
      content.isStepping = false
      content.settled = state
      content.noted = nil
      for change in content.announced { change.announcement.withdraw() }
      content.announced = []
    }
    note()
  }

  // MARK: What it does by itself

  /// Tells of each change of the model's that no step has led to, from now on.
  func follow(_ announce: @escaping Announce) throws {
    let model = try model()
    let begins = content.withLock { content in
      guard !content.isOver, content.following == nil else { return false }
      content.announce = announce
      content.following = Task { [weak self, states = model.stateDidChange] in
        for await _ in states {
          guard !Task.isCancelled, let self else { return }
          note()
        }
      }
      return true
    }
    if begins { note() }
  }

  /// Looks whether the model has changed by itself. News of what led to a change may come later than it.
  private func note() {
    guard let model = made.withLock({ $0 }) else { return }
    let state = model.state
    guard content.withLock({ $0.isNews(state) }) else { return }
    let event = Model.event(forChangeTo: state)
    let isUntold = content.withLock { content in
      // Else it has gone on, and there is news of that, too.
      guard content.isNews(state), model.state == state else { return false }
      content.noted = state
      guard let event, let announce = content.announce else { return event == nil }
      let change = Change(
        state: state, tag: EnumCases.tag(of: event), announcement: Announcement())
      content.announced.append(change)
      announce(event, change.announcement)
      return false
    }
    guard isUntold else { return }
    Self.warn(
      "the model has gone to '\(state)' by itself; let 'event(forChangeTo:)' say which event that "
        + "stands for")
  }

  /// The first change that an event stands for, where the model has done what it tells.
  func change(on event: Model.Event) -> Change? {
    note()
    let tag = EnumCases.tag(of: event)
    return content.withLock { content in content.announced.first { $0.tag == tag } }
  }

  /// The machine has taken the step for a change that the model has made.
  /// - Parameter tell: Told of what the model went through before it.
  /// - Returns: `false` where the change was withdrawn meanwhile.
  func pass(_ change: Change, _ tell: (@Sendable (State) -> Void)?) -> Bool {
    let isPassed = content.withLock { content in
      guard
        let index = content.announced.firstIndex(where: {
          $0.announcement === change.announcement
        })
      else { return false }
      for change in content.announced[...index] { change.announcement.withdraw() }
      content.announced.removeSubrange(...index)
      content.settled = change.state
      return true
    }
    if isPassed { passage.pass(through: change.state, tell) }
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
  /// The events, as they travel.
  associatedtype Event: MachineEvent
  /// What a topology file can set.
  associatedtype Parameters: MachineParameters = NoParameters

  /// The state of a node that has never run.
  static func initialState(_ parameters: Parameters) -> State

  /// Makes the model in a stable state.
  init(startsWith state: State, _ parameters: Parameters) throws

  /// Takes an event; returns once the model is done with it and its state is stable.
  ///
  /// What it goes through on the way is seen as it comes, and what pipes are to tell of it is sent when
  /// the step is over.
  /// - Throws: To refuse the event. The model is then made anew in the state in which it stood.
  func take(_ event: Event) async throws

  /// The events for which ``take(_:)`` acts on nothing but the model itself, so that nodes can take them
  /// together with others. Default: none.
  ///
  /// Such an event is taken by a model of its own, made in the state in which this one stands, before it is
  /// known whether the others take it. Where they do, that one takes the place of this one, with what this
  /// one has beside its state, its tasks included; else this one goes on as if nobody had asked. So
  /// ``init(startsWith:_:)`` may be called often, and is to begin only what belongs to the state.
  static var selfContained: SelfContainedEvents<Event> { get }

  /// The pipes that lead from the model and to it, by their names. Default: none.
  ///
  /// ```swift
  /// static func runtime(_ parameters: NoParameters, _ ports: Ports) -> Runtime<State, Event, Never> {
  ///   Runtime()
  ///     .connectAsSender(to: ports.pipe("lamp"), when: State.on, send: LampEvent.light)
  ///     .connectAsReceiver(to: ports.pipe("switch"))
  /// }
  /// ```
  static func runtime(_ parameters: Parameters, _ ports: Ports) -> Runtime<State, Event, Never>

  /// The event that stands for a change which the model makes by itself, to a stable state. When a node
  /// hosts the model, the change is a step on that event, and the model does not take it again.
  ///
  /// Where the model takes another event before that step, the change is a part of the step on that one.
  ///
  /// Default: `nil`. A node whose model then changes by itself says so in its log, and shows that with
  /// the next event.
  static func event(forChangeTo state: State) -> Event?
}

extension HostableModel {
  /// No event.
  public static var selfContained: SelfContainedEvents<Event> { .none }

  /// No pipes.
  public static func runtime(
    _ parameters: Parameters, _ ports: Ports
  ) -> Runtime<State, Event, Never> { Runtime() }

  /// None.
  public static func event(forChangeTo state: State) -> Event? { nil }
}

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
