/// Work that depends on a part of the state. The work starts when that part appears, is cancelled
/// when the part changes or disappears, and produces events for its own machine.
///
/// ```swift
/// Runtime().feedback(
///   Feedback(lensing: { $0.nextPage }) { page in
///     await Event.didLoad(movies.fetch(page: page))
///   })
/// ```
///
/// A feedback that has ended starts again only when its part of the state changes. If the process
/// of a node dies, the next process runs an unfinished feedback again, like any unfinished effect.
///
/// If a machine's feedbacks start each other, or themselves, more than ``startLimit`` times within
/// a second, the next feedback is held and reported. A held feedback does not start until an event
/// arrives that does not come from the machine's effects, or until the node is restarted.
public struct Feedback<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  /// The change that a step makes to the work of a feedback.
  enum Change {
    case none, starts, restarts, stops
  }

  let priority: TaskPriority?
  /// Whether the feedback can produce more than one event.
  let isSequence: Bool
  /// The events that the feedback can produce; `nil` if they are not declared.
  let gives: GivenEvents<Event>?
  /// Whether the feedback has no work of its own, and only announces the changes that a model makes
  /// by itself.
  var isAnnouncing = false
  let change: @Sendable (_ old: State?, _ new: State) -> Change
  let run: @Sendable (State, EffectDelivery<Event>) async -> Void

  /// Runs `effect` on a part of the state while that part exists, and processes the event that
  /// `effect` returns.
  /// - Parameters:
  ///   - lens: Returns the part, or `nil` if there is nothing to do. This function must be pure,
  ///     because every step calls it.
  ///   - gives: The events that the effect can produce, for `orchestrator check --explore`. With
  ///     `nil`, the model checker assumes that the effect can produce each event that nothing else
  ///     sends.
  ///   - effect: The work for the part.
  public init<Part: Equatable & Sendable>(
    lensing lens: @escaping @Sendable (State) -> Part?, gives: GivenEvents<Event>? = nil,
    priority: TaskPriority? = nil,
    effect: @escaping @Sendable (Part) async -> Event?
  ) {
    self.init(lens, gives, priority, isSequence: false) { part, deliver in
      if let event = await effect(part) { _ = await deliver(event, .last) }
    }
  }

  /// Runs `effects` on a part of the state while that part exists, and processes every event of the
  /// returned sequence.
  /// - Parameters:
  ///   - lens: Returns the part, or `nil` if there is nothing to do. This function must be pure,
  ///     because every step calls it.
  ///   - gives: The events that the effects can produce, for `orchestrator check --explore`. With
  ///     `nil`, the model checker assumes that the effects can produce each event that nothing else
  ///     sends.
  ///   - effects: The work for the part.
  public init<Part: Equatable & Sendable, Events: AsyncSequence & SendableMetatype>(
    lensing lens: @escaping @Sendable (State) -> Part?, gives: GivenEvents<Event>? = nil,
    priority: TaskPriority? = nil,
    effects: @escaping @Sendable (Part) async -> Events
  )
  where
    Events.Element == Event, Events.Failure == Never, Events.AsyncIterator: SendableMetatype
  {
    self.init(lens, gives, priority, isSequence: true) { part, deliver in
      for await event in await effects(part) {
        guard await deliver(event, .oneOfMany) else { return }
      }
    }
  }

  /// Runs `effect` while the predicate holds, and processes the event that `effect` returns.
  public init(
    when holds: @escaping @Sendable (State) -> Bool, gives: GivenEvents<Event>? = nil,
    priority: TaskPriority? = nil,
    effect: @escaping @Sendable (State) async -> Event?
  ) {
    self.gives = gives
    self.priority = priority
    isSequence = false
    change = { old, new in
      switch (old.map(holds) ?? false, holds(new)) {
      case (false, true): .starts
      case (true, false): .stops
      case (false, false), (true, true): .none
      }
    }
    run = { state, deliver in
      if let event = await effect(state) { _ = await deliver(event, .last) }
    }
  }

  /// Makes a feedback that processes announced events, beginning in the initial state. Withdrawn
  /// events are not processed.
  package init<Announced: AsyncSequence & SendableMetatype>(
    announced: @escaping @Sendable () async -> Announced
  )
  where
    Announced.Element == (event: Event, announcement: Announcement), Announced.Failure == Never,
    Announced.AsyncIterator: SendableMetatype
  {
    gives = nil
    priority = nil
    isSequence = true
    isAnnouncing = true
    change = { old, _ in old == nil ? .starts : .none }
    run = { _, deliver in
      // Continues after an event that the machine has not accepted. When the effect is cancelled,
      // the sequence ends, too.
      for await (event, announcement) in await announced() {
        _ = await deliver(event, .announced(announcement))
      }
    }
  }

  private init<Part: Equatable & Sendable>(
    _ lens: @escaping @Sendable (State) -> Part?, _ gives: GivenEvents<Event>?,
    _ priority: TaskPriority?, isSequence: Bool,
    _ run: @escaping @Sendable (Part, EffectDelivery<Event>) async -> Void
  ) {
    self.gives = gives
    self.priority = priority
    self.isSequence = isSequence
    change = { old, new in
      switch (old.flatMap(lens), lens(new)) {
      case (nil, .some): .starts
      case (.some, nil): .stops
      case (nil, nil): .none
      case (.some(let old), .some(let new)): old == new ? .none : .restarts
      }
    }
    self.run = { state, deliver in
      if let part = lens(state) { await run(part, deliver) }
    }
  }

  /// The maximum number of times that a machine's feedbacks may start within one second.
  ///
  /// An event that does not come from one of the machine's own effects resets the count.
  public static var startLimit: Int { FeedbackGuard.startLimit }
}

/// Passes an event to the machine. Returns after the machine's step, except for the last event of
/// an effect: then it returns immediately. Returns `false` if the work should stop.
typealias EffectDelivery<Event> = @Sendable (Event, EffectEventKind) async -> Bool

extension Runtime {
  /// Adds a feedback to the runtime.
  public func feedback(_ feedback: Feedback<State, Event>) -> Self {
    var runtime = self
    runtime.feedbacks.append(feedback)
    return runtime
  }
}

/// A detector for feedbacks that start each other, or themselves, in an endless loop.
struct FeedbackGuard {
  /// The maximum number of starts within a second. An effect that waits for I/O or for a timer
  /// stays far below this limit.
  static let startLimit = 1_000

  private var firstStart: ContinuousClock.Instant?
  private var startCount = 0
  /// Whether feedbacks are held. A held feedback does not start.
  private(set) var isHolding = false

  /// Resets the guard after an event from outside: feedbacks may start again.
  mutating func reset() { self = Self() }

  /// Returns whether one more feedback may start.
  mutating func permitsStart() -> Bool {
    guard !isHolding else { return false }
    let now = ContinuousClock.now
    if let firstStart, now - firstStart < .seconds(1) {
      startCount += 1
      isHolding = startCount > Self.startLimit
      return !isHolding
    }
    firstStart = now
    startCount = 1
    return true
  }
}

/// Determines which feedbacks each step of a machine starts, cancels or holds. A feedback that
/// keeps starting itself is held.
struct FeedbackSteps<State: DSLCompatible, Event: DSLCompatible> {
  enum Action: Equatable {
    case cancel(feedbackNumber: Int)
    case start(feedbackNumber: Int)
    /// Holds the feedback, so that it does not start.
    /// - Parameter isFirst: Whether no feedback was held before.
    case hold(feedbackNumber: Int, isFirst: Bool)
  }

  private var startGuard = FeedbackGuard()
  /// The numbers of the held feedbacks, which wait for an event from outside.
  private var heldFeedbacks: Set<Int> = []
  /// The state before the entry; `nil` before the initial state. Feedbacks compare the new state
  /// with this state.
  private var lastState: State?

  /// Restores a state that the machine entered in an earlier run.
  mutating func restore(_ state: State) { lastState = state }

  /// Returns the actions for the entry into a state.
  /// - Parameter isFromEffect: Whether the event of the step comes from an effect of the machine.
  mutating func entered(
    _ state: State, isFromEffect: Bool, _ feedbacks: [Feedback<State, Event>]
  ) -> [Action] {
    if !isFromEffect { startGuard.reset() }
    var actions: [Action] = []
    for (index, feedback) in feedbacks.enumerated() {
      let feedbackNumber = index + 1
      let isBlocked = heldFeedbacks.contains(feedbackNumber)
      // A held feedback has not started yet. So its part of the state counts as new, even if that
      // part existed before this step.
      let change = feedback.change(isBlocked ? nil : lastState, state)
      if isBlocked || change == .stops || change == .restarts {
        heldFeedbacks.remove(feedbackNumber)
        actions.append(.cancel(feedbackNumber: feedbackNumber))
      }
      if change == .starts || change == .restarts { actions.append(start(feedbackNumber)) }
    }
    lastState = state
    return actions
  }

  private mutating func start(_ feedbackNumber: Int) -> Action {
    let wasHolding = startGuard.isHolding
    if startGuard.permitsStart() { return .start(feedbackNumber: feedbackNumber) }
    heldFeedbacks.insert(feedbackNumber)
    return .hold(feedbackNumber: feedbackNumber, isFirst: !wasHolding)
  }

  /// Returns the message about a held feedback.
  static func problem(at feedbackNumber: Int) -> String {
    """
    feedback \(feedbackNumber) of the runtime has started more than \(FeedbackGuard.startLimit) times \
    within a second without an external event; the feedback is held until the next external \
    event; add a delay to its effect, or move to a state that does not start the feedback again
    """
  }
}
