import PipeSupport

/// The running timers of a machine: the timers of the state that the machine entered last.
///
/// The timers of a state start together, so one alarm, for the earliest timer, suffices. When that
/// timer fires, the machine leaves the state, and the other timers are cancelled.
@usableFromInline
package final class EngineTimers<State: DSLCompatible, Event: DSLCompatible, Output: DSLCompatible>
{
  /// The entry into the state whose timers run.
  package struct Entry {
    package let state: State
    /// The version of the step that entered the state.
    package let version: UInt64
    package let instant: BootClock.Instant
  }

  /// The time from the entry into a state to the state's next timer, together with this entry.
  package typealias NextTimer = (delay: Duration, entry: Entry)

  private let machine: StateMachine<State, Event, Output>
  private var knowledge: TimerPresence
  private let startStopwatch: () -> () -> Duration
  /// Sets the alarm to a delay; `nil` cancels the alarm. When the alarm goes off, the owner
  /// processes ``EngineInput/timerDue(_:)`` with the number.
  private var setAlarm: (_ delay: Duration?, _ number: UInt64) -> Void
  /// Called instead of starting timers, on each entry into a state and after a timer is dropped;
  /// `nil` if the engine itself runs the timers.
  private var onNextTimerChange: ((_ next: NextTimer?) -> Void)?
  /// The timers that have not fired, in the order in which they are due.
  package private(set) var runningTimers: [StateTimer] = []
  /// The entry that has started the running timers; `nil` if no timer is running.
  package private(set) var entry: Entry?
  private var elapsedSinceEntry: () -> Duration = { .zero }
  /// The number of the last alarm.
  private var lastAlarm: UInt64 = 0
  /// Whether the timers wait for ``unpark(ofVersion:)``, because the transition of one of these
  /// timers has crashed earlier processes.
  package private(set) var isParked = false
  /// The version of the entry whose timers are recorded; `nil` if no timers are recorded.
  package private(set) var recordedVersion: UInt64?
  private var needsRecord = false

  init(
    _ machine: StateMachine<State, Event, Output>, _ knowledge: TimerPresence,
    clock: any Clock<Duration>, post: @escaping @Sendable (EngineInput<State, Event>) -> Void
  ) {
    self.machine = machine
    self.knowledge = knowledge
    startStopwatch = { clock.startStopwatch() }
    let alarm = TaskAlarm(clock) { post(.timerDue($0)) }
    setAlarm = { alarm.set($0, $1) }
  }

  /// Replaces the alarm, which by default is a task that sleeps.
  package func useAlarm(_ setAlarm: @escaping (_ delay: Duration?, _ number: UInt64) -> Void) {
    self.setAlarm = setAlarm
  }

  /// Lets the owner run the timers of each state that the machine enters. When a timer is due, the
  /// owner calls ``resume(of:version:since:elapsed:isParked:)`` and then processes ``dueInput``.
  package func letOwnerRunTimers(_ onNextTimerChange: @escaping (_ next: NextTimer?) -> Void) {
    setAlarm = { _, _ in }
    self.onNextTimerChange = onNextTimerChange
  }

  /// Cancels the timers of the former state, and starts the timers of the entered state.
  /// - Throws: ``InvalidTimerError`` if a duration is negative or too long.
  @export(interface)
  func entered(_ state: State, version: UInt64) throws(InvalidTimerError) {
    cancel()
    let timers = mayHaveTimers(state) ? try machine.timers(in: state) : []
    let entry = Entry(state: state, version: version, instant: BootClock.now)
    if let onNextTimerChange { return onNextTimerChange(timers.first.map { ($0.duration, entry) }) }
    if !timers.isEmpty { start(timers, entry, elapsed: .zero) }
  }

  /// Continues the timers of a state that was entered earlier.
  /// - Parameters:
  ///   - elapsed: The time since the entry.
  ///   - isParked: Whether the timers wait for ``unpark(ofVersion:)``.
  /// - Returns: Whether the machine has timers for the state.
  package func resume(
    of state: State, version: UInt64, since instant: BootClock.Instant, elapsed: Duration,
    isParked: Bool = false
  ) throws(InvalidTimerError) -> Bool {
    cancel()
    recordedVersion = version
    self.isParked = isParked
    let timers = try machine.timers(in: state)
    guard !timers.isEmpty else { return false }
    start(
      timers, Entry(state: state, version: version, instant: instant), elapsed: elapsed)
    return true
  }

  /// Cancels all timers.
  package func cancel() {
    guard entry != nil else { return }
    (runningTimers, entry, elapsedSinceEntry, isParked) = ([], nil, { .zero }, false)
    lastAlarm &+= 1
    setAlarm(nil, lastAlarm)
  }

  /// Cancels the alarm. The record still contains the timers, so that the next process continues
  /// these timers.
  func stop() {
    guard entry != nil else { return }
    lastAlarm &+= 1
    setAlarm(nil, lastAlarm)
  }

  private func start(_ timers: [StateTimer], _ entry: Entry, elapsed: Duration) {
    runningTimers = timers
    self.entry = entry
    let time = startStopwatch()
    self.elapsedSinceEntry = { elapsed + time() }
    setNextAlarm()
  }

  private func setNextAlarm() {
    lastAlarm &+= 1
    setAlarm(isParked ? nil : remainingTime.map { max(.zero, $0) }, lastAlarm)
  }

  /// The time until the next timer is due, negative if the timer is overdue; `nil` if no timer is
  /// running.
  package var remainingTime: Duration? {
    runningTimers.first.map { $0.duration - elapsedSinceEntry() }
  }

  private func mayHaveTimers(_ state: State) -> Bool {
    guard let tag = EnumCases<State>.tag(of: state), tag < knowledge.presenceByTag.count else {
      return true
    }
    switch knowledge.presenceByTag[tag] {
    case .none: return false
    case .some: return true
    case .unknown:
      // All states of a case have the same transitions. So the result for the first of these states
      // that the machine enters is stored for the entire case.
      let mayHaveTimers = machine.mayHaveTimers(in: state)
      knowledge.presenceByTag[tag] = mayHaveTimers ? .some : .none
      return mayHaveTimers
    }
  }

  /// The input that fires the timer which is due first. The input has no effect if the machine
  /// leaves the state before the engine processes the input.
  package var dueInput: EngineInput<State, Event> { .timerDue(lastAlarm) }

  /// Returns the timer of an alarm; `nil` if the machine has left the state.
  func dueTimer(of alarm: UInt64) -> StateTimer? { alarm == lastAlarm ? runningTimers.first : nil }

  /// Drops the earliest timer, whose transition cannot be made.
  func dropFirst() {
    guard let entry else { return }
    runningTimers.removeFirst()
    guard let next = runningTimers.first else {
      cancel()
      onNextTimerChange?(nil)
      return
    }
    if let onNextTimerChange {
      cancel()
      onNextTimerChange((next.duration, entry))
    } else {
      setNextAlarm()
    }
  }

  // MARK: Parked timers

  /// Lets parked timers run again. An overdue timer fires immediately.
  /// - Returns: `false` if the machine has left the state.
  package func unpark(ofVersion version: UInt64) -> Bool {
    guard isParked, entry?.version == version else { return false }
    isParked = false
    needsRecord = true
    setNextAlarm()
    return true
  }

  /// Cancels parked timers, which must never run again.
  package func discard(ofVersion version: UInt64) {
    if isParked, entry?.version == version { cancel() }
  }

  // MARK: Recording timers

  /// Whether the running timers differ from the recorded timers.
  package var hasUnrecordedChanges: Bool { needsRecord || entry?.version != recordedVersion }

  /// Called after the running timers have been recorded.
  package func didRecord() {
    recordedVersion = entry?.version
    needsRecord = false
  }
}

/// An alarm that is a sleeping task. There is at most one such task for each machine.
private final class TaskAlarm: Sendable {
  private let clock: any Clock<Duration>
  private let ring: @Sendable (UInt64) -> Void
  private let task = Locked<Task<Void, Never>?>(nil)

  init(_ clock: any Clock<Duration>, _ ring: @escaping @Sendable (UInt64) -> Void) {
    self.clock = clock
    self.ring = ring
  }

  deinit { task.withLock { $0 }?.cancel() }

  func set(_ delay: Duration?, _ number: UInt64) {
    var new: Task<Void, Never>?
    if let delay {
      let (sleep, ring) = (clock.makeSleep(for: delay), ring)
      new = Task {
        do { try await sleep() } catch { return }
        ring(number)
      }
    }
    task.withLock { [new] task in
      let former = task
      task = new
      return former
    }?.cancel()
  }
}

extension Clock where Duration == Swift.Duration {
  /// Starts a stopwatch. The returned function returns the time since this call.
  fileprivate func startStopwatch() -> () -> Duration {
    let start = now
    return { start.duration(to: now) }
  }

  /// Returns a function that sleeps until `delay` has passed since the call of `makeSleep`, not
  /// since the call of the returned function.
  fileprivate func makeSleep(for delay: Duration) -> @Sendable () async throws -> Void {
    let deadline = now.advanced(by: delay)
    return { try await sleep(until: deadline, tolerance: nil) }
  }
}
