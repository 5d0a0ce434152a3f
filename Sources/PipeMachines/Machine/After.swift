/// A transition that the machine makes by itself when it has been in the state of the enclosing
/// `When` for a duration.
///
/// The timer starts when the machine enters the state, and is cancelled when the machine leaves the
/// state. A transition from the state to itself leaves and re-enters the state, so the timer starts
/// again.
///
/// ```swift
/// When(state: State.offered(attempt:)) { _ in
///   Execute.noOutput
/// } transitions: { attempt in
///   On(event: Event.accept) { Transition(to: State.accepted) }
///   After(.seconds(30) * attempt) { Transition(to: State.expired) }
/// }
/// ```
///
/// The duration and the transition are evaluated with the values of the state: the duration on
/// entry, and the transition when the timer fires. Both must be pure. An internal transition
/// (``Stay(_:)``) starts and cancels no timer. The machine refuses an internal transition that
/// would change a timer of the state. The transition of a timer cannot be internal. If a state has
/// several timers, the timer with the shortest duration fires. If several timers have this shortest
/// duration, the timer that is written first fires.
///
/// A timer that is due while the machine cannot accept events, for example because a pipe is full,
/// fires as soon as the machine accepts events again.
public struct After<State: DSLCompatible>: Sendable {
  /// The longest duration of a timer: 100 years of 365 days.
  public static var longestDuration: Duration { .seconds(100 * 365 * 86_400) }

  @usableFromInline let duration: TimerDuration
  @usableFromInline let transition: @Sendable () -> Transition<State>
  @usableFromInline let location: TimerLocation

  /// Creates a transition that the machine makes after a duration.
  /// - Parameters:
  ///   - duration: The time from the entry into the state to the transition. The duration may
  ///     depend on the state's values. Range: 0 to ``longestDuration``. With a duration of zero,
  ///     the machine makes the transition immediately, as a separate step.
  ///   - transition: The transition.
  @inlinable
  public init(
    _ duration: sending @autoclosure @escaping () -> Duration,
    fileID: StaticString = #fileID, line: UInt = #line, column: UInt = #column,
    transition: sending @escaping () -> Transition<State>
  ) {
    nonisolated(unsafe) let (duration, transition) = (duration, transition)
    self.duration = TimerDuration(duration)
    self.transition = { transition() }
    location = TimerLocation(fileID, line: line, column: column)
  }

  /// Adds this timer to the current thread's list of timers, or makes the transition if this timer
  /// fires. Does nothing while the machine evaluates an event.
  @inlinable
  func readTimer() {
    guard let context = MatchThread.current else {
      Matching<State, Never>.trapOnMisplacedTransition()
    }
    switch context.pointee.status {
    case .noTransition, .refusedByGuard, .matched, .stayed, .ignored, .suspended: return
    case .listing, .listingTimers, .firing: answer(context)
    }
  }

  @usableFromInline
  func answer(_ context: UnsafeMutablePointer<MatchContext>) {
    guard context.pointee.stateType == TypeMetadata(State.self).pointer else {
      Matching<State, Never>.trapOnMisplacedTransition()
    }
    guard let list = context.pointee.eventList?.takeUnretainedValue() else { return }
    // Several timers can have the same source location, for example in a `for`. The number of
    // earlier timers at that location distinguishes these timers.
    var location = location
    location.occurrence = list.timers.count { $0.location.isSamePlace(as: location) }
    switch context.pointee.status {
    case .listing:
      list.timers.append(ListedTimer(duration: duration.constant, location: location))
    case .listingTimers:
      list.timers.append(ListedTimer(duration: duration.evaluate(), location: location))
    case .firing:
      defer { list.timers.append(ListedTimer(duration: nil, location: location)) }
      guard location == list.firingTimer else { return }
      Matching<State, Never>.finish(context, transition())
    case .noTransition, .refusedByGuard, .matched, .stayed, .ignored, .suspended: return
    }
  }
}

/// The duration of a timer, as a function of the state's values.
@usableFromInline
struct TimerDuration: @unchecked Sendable {  // The closure is `sending` and pure; see `On`.
  @usableFromInline let evaluate: () -> Duration

  @inlinable
  init(_ evaluate: @escaping () -> Duration) { self.evaluate = evaluate }

  /// The duration if it is the same in all states, for example `.seconds(30)`; otherwise `nil`.
  ///
  /// A closure that captures nothing cannot depend on the state, so it can be called at any time.
  /// Any other closure is not called here, because an expression such as `.seconds(60) / attempts`
  /// would trap with sample values.
  var constant: Duration? {
    let context = withUnsafeBytes(of: self) {
      $0.load(fromByteOffset: MemoryLayout<UInt>.size, as: UInt.self)
    }
    return context == 0 ? evaluate() : nil
  }
}

/// A timer of a state.
@usableFromInline
struct ListedTimer: Hashable, Sendable {
  /// The duration; `nil` if it depends on the state's values, or if it was not evaluated.
  @usableFromInline let duration: Duration?
  @usableFromInline let location: TimerLocation
}

/// The position of an `After` in the source, which identifies a timer among the timers of a state.
@usableFromInline
struct TimerLocation: Hashable, @unchecked Sendable {  // The pointer is to a constant.
  private let file: UnsafePointer<UInt8>
  private let line: UInt
  private let column: UInt
  /// The number of earlier timers of the state at the same position.
  var occurrence = 0

  @usableFromInline
  init(_ fileID: StaticString, line: UInt, column: UInt) {
    file = fileID.utf8Start
    self.line = line
    self.column = column
  }

  func isSamePlace(as other: Self) -> Bool {
    file == other.file && line == other.line && column == other.column
  }
}
