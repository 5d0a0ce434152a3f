/// Work that goes by a part of the state: it starts when that part comes to be, is cancelled when the
/// part goes or is another one, and gives events to its own machine.
///
/// ```swift
/// Runtime().feedback(
///   Feedback(lensing: { $0.nextPage }) { page in
///     await Event.didLoad(movies.fetch(page: page))
///   })
/// ```
///
/// A feedback that has ended starts again only when its part of the state changes. In a node that was
/// killed, one that had not ended is run again, as effects are.
///
/// One that keeps starting itself without an event from elsewhere, ``startLimit`` times within a
/// second, is held until such an event comes, or its node is started again; that is reported.
public struct Feedback<State: DSLCompatible, Event: DSLCompatible>: Sendable {
  /// How a step bears on the work.
  enum Change {
    case none, starts, restarts, stops
  }

  let priority: TaskPriority?
  /// Whether it may give more than one event.
  let isSequence: Bool
  /// What it may give, where that is declared.
  let gives: GivenEvents<Event>?
  /// Whether it only tells of what a model does, as long as the model is there: no work of its own.
  var isAnnouncing = false
  let change: @Sendable (_ old: State?, _ new: State) -> Change
  let run: @Sendable (State, EffectDelivery<Event>) async -> Void

  /// Runs `effect` on a part of the state while it is there, and takes the event that it returns.
  /// - Parameters:
  ///   - lens: The part; `nil` where there is nothing to do. Pure, and called on every entry.
  ///   - gives: What it may give, for `orchestrator check --explore`; `nil` leaves that to be assumed.
  ///   - effect: The work.
  public init<Part: Equatable & Sendable>(
    lensing lens: @escaping @Sendable (State) -> Part?, gives: GivenEvents<Event>? = nil,
    priority: TaskPriority? = nil,
    effect: @escaping @Sendable (Part) async -> Event?
  ) {
    self.init(lens, gives, priority, isSequence: false) { part, deliver in
      if let event = await effect(part) { _ = await deliver(event, .last) }
    }
  }

  /// Runs `effects` on a part of the state while it is there, and takes every event of its sequence.
  /// - Parameters:
  ///   - lens: The part; `nil` where there is nothing to do. Pure, and called on every entry.
  ///   - gives: What it may give, for `orchestrator check --explore`; `nil` leaves that to be assumed.
  ///   - effects: The work.
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

  /// Runs `effect` while the predicate holds, and takes the event that it returns.
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

  /// Takes the events that announcements are about, from the first state on, unless they are withdrawn.
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
      // Whether one is taken or not, the next one may be. Where the effect is over, so is the sequence.
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

  /// How often feedbacks of a machine may start within a second without an event from elsewhere.
  public static var startLimit: Int { FeedbackGuard.startLimit }
}

/// Gives an event to the machine and returns after its step; `false` says to stop.
typealias EffectDelivery<Event> = @Sendable (Event, EffectEventPlace) async -> Bool

extension Runtime {
  /// Runs a feedback loop on the machine's states.
  public func feedback(_ feedback: Feedback<State, Event>) -> Self {
    var runtime = self
    runtime.feedbacks.append(feedback)
    return runtime
  }
}

/// Notices feedbacks that start each other, or themselves, for ever.
struct FeedbackGuard {
  /// Starts within a second. An effect that waits for anything real stays far below.
  static let startLimit = 1_000

  private var first: ContinuousClock.Instant?
  private var starts = 0
  /// Whether feedbacks are held.
  private(set) var isHolding = false

  /// An event has come from elsewhere: what was held may go on.
  mutating func reset() { self = Self() }

  /// Whether one more may start.
  mutating func permitsStart() -> Bool {
    guard !isHolding else { return false }
    let now = ContinuousClock.now
    if let first, now - first < .seconds(1) {
      starts += 1
      isHolding = starts > Self.startLimit
      return !isHolding
    }
    first = now
    starts = 1
    return true
  }
}

/// What the steps of a machine mean to its feedbacks: which start and which are cancelled, and which are
/// held because they keep starting themselves.
struct FeedbackSteps<State: DSLCompatible, Event: DSLCompatible> {
  enum Action: Equatable {
    case cancel(place: Int)
    case start(place: Int)
    /// Keeps it from starting.
    /// - Parameter isFirst: Whether nothing was held so far.
    case hold(place: Int, isFirst: Bool)
  }

  private var frequency = FeedbackGuard()
  /// The places of those that wait for an event from elsewhere.
  private var held: Set<Int> = []
  /// The state that the feedbacks were last compared with.
  private var followed: State?

  /// The machine stands in a state that was entered before.
  mutating func restore(_ state: State) { followed = state }

  /// A state is entered.
  /// - Parameter isOwn: Whether the event of the step comes from an effect of the machine.
  mutating func entered(
    _ state: State, isOwn: Bool, _ feedbacks: [Feedback<State, Event>]
  ) -> [Action] {
    if !isOwn { frequency.reset() }
    var actions: [Action] = []
    for (index, feedback) in feedbacks.enumerated() {
      let place = index + 1
      let isBlocked = held.contains(place)
      // One that was held is compared as if its part of the state were new.
      let change = feedback.change(isBlocked ? nil : followed, state)
      if isBlocked || change == .stops || change == .restarts {
        held.remove(place)
        actions.append(.cancel(place: place))
      }
      if change == .starts || change == .restarts { actions.append(start(place)) }
    }
    followed = state
    return actions
  }

  private mutating func start(_ place: Int) -> Action {
    let wasHolding = frequency.isHolding
    if frequency.permitsStart() { return .start(place: place) }
    held.insert(place)
    return .hold(place: place, isFirst: !wasHolding)
  }

  /// What is to be said of a feedback that is held.
  static func problem(at place: Int) -> String {
    """
    feedback \(place) of the runtime has started more than \(FeedbackGuard.startLimit) times \
    within a second without an event from elsewhere; it is held until the next such event. \
    Have its effect wait, or its event lead to a state that does not start it again.
    """
  }
}
