import PipeJournal
import PipeMachines
import PipeSupport

/// The timers of all instances of a keyed node: a heap of deadlines, and one alarm.
///
/// A timer needs no engine and no task, and its instance does not have to be in memory. Each
/// instance has at most one timer here: the next timer of the instance's state.
final class InstanceTimers {
  struct Timer {
    let key: InstanceKey
    /// The step that entered the state with the timer.
    let origin: EffectOrigin
    let entry: BootClock.Instant
    /// The time from the entry to the timer. Unit: nanoseconds.
    let delay: Int64
    var isRecorded = false

    /// The time at which the timer is due. Unit: nanoseconds of ``BootClock``.
    var deadline: Int64 { entry.timeSinceBoot.addingReportingOverflow(delay).partialValue }
  }

  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  /// The running timers. The children of the timer at `n` are at `2n + 1` and `2n + 2`, and are not
  /// due earlier than their parent.
  @exclusivity(unchecked)
  private var heap: [Timer] = []
  /// The positions of timers in the heap, by the keys of their instances.
  @exclusivity(unchecked)
  private var positions: [InstanceKey: Int] = [:]
  /// The parked timers. Each of them has ended the process with its transition.
  private var parked: [InstanceKey: Timer] = [:]
  /// The timers that are due and wait until their instance can take a step.
  private var due: [InstanceKey: Timer] = [:]
  /// The instances with unrecorded changes of their timers, each with the timer that the journal
  /// contains.
  @exclusivity(unchecked)
  private var changed: [InstanceKey: EffectOrigin?] = [:]
  private var alarm: LoopAlarm?
  /// The deadline that the alarm is set to.
  private var alarmDeadline: Int64?

  /// The number of running timers.
  var count: Int { heap.count + due.count }

  func useAlarm(_ alarm: LoopAlarm) { self.alarm = alarm }

  /// Returns the running timer of an instance.
  subscript(key: InstanceKey) -> Timer? { positions[key].map { heap[$0] } ?? due[key] }

  /// The timer that is due first. Timers that wait for their instance do not count.
  var first: Timer? { heap.first }

  // MARK: Setting and firing timers

  /// Replaces the timer of an instance, which has entered a state.
  func set(_ key: InstanceKey, _ timer: Timer?) {
    let former = removeTimer(of: key)
    guard former != nil || timer != nil else { return }
    if changed[key] == nil {
      changed[key] = .some(former.flatMap { $0.isRecorded ? $0.origin : nil })
    }
    if let timer { insert(timer) }
    setAlarm()
  }

  private func removeTimer(of key: InstanceKey) -> Timer? {
    if let position = positions[key] { return remove(at: position) }
    if !parked.isEmpty, let timer = parked.removeValue(forKey: key) { return timer }
    return due.isEmpty ? nil : due.removeValue(forKey: key)
  }

  /// Adds a timer that the journal contains.
  func restore(_ timer: Timer, isParked: Bool) {
    var timer = timer
    timer.isRecorded = true
    if isParked { parked[timer.key] = timer } else { insert(timer) }
  }

  /// Returns the next timer that is due. The timer then waits for its instance.
  func takeDue(at now: Int64) -> Timer? {
    guard let first = heap.first, first.deadline <= now else { return nil }
    let timer = remove(at: 0)
    due[timer.key] = timer
    return timer
  }

  /// Whether a timer in the heap is due. Timers that already wait for their instance do not count.
  var hasDue: Bool { heap.first.map { $0.deadline <= BootClock.nanoseconds } ?? false }

  /// Sets the alarm to the next deadline.
  func setAlarm() {
    guard let alarm, heap.first?.deadline != alarmDeadline else { return }
    alarmDeadline = heap.first?.deadline
    // The alarm needs no action of its own: after each alarm, the node takes a turn, which fires
    // the due timers.
    alarm.set(alarmDeadline.map { .nanoseconds(max(0, $0 - BootClock.nanoseconds)) }) {}
  }

  // MARK: Parked timers

  /// Resumes a parked timer with its original deadline. Returns `false` if there is no such timer.
  func unpark(_ origin: EffectOrigin) -> Bool {
    guard let key = parkedKey(of: origin), let timer = parked.removeValue(forKey: key) else {
      return false
    }
    changed[key] = .some(origin)
    insert(timer)
    setAlarm()
    return true
  }

  /// Cancels a parked timer.
  func discard(_ origin: EffectOrigin) { if let key = parkedKey(of: origin) { set(key, nil) } }

  private func parkedKey(of origin: EffectOrigin) -> InstanceKey? {
    parked.first { $0.value.origin == origin }?.key
  }

  // MARK: Recording timers

  var hasUnrecordedChanges: Bool { !changed.isEmpty }

  /// - Parameter noteProgress: Called with each timer that has started.
  func record(into journal: Journal, noteProgress: (EffectOrigin) throws -> Void) throws {
    for (key, recorded) in changed {
      let timer = self[key]
      if let recorded, recorded != timer?.origin { try journal.recordInstanceEffectEnd(recorded) }
      guard let timer else { continue }
      try noteProgress(timer.origin)
      try journal.recordTimersStart(
        timer.origin, delay: .nanoseconds(timer.delay), since: timer.entry)
    }
  }

  func recorded() {
    guard !changed.isEmpty else { return }
    for key in changed.keys {
      if let position = positions[key] {
        heap[position].isRecorded = true
      } else {
        due[key]?.isRecorded = true
      }
    }
    changed.removeAll(keepingCapacity: changed.count < 4_096)
  }

  // MARK: Heap of deadlines

  private func insert(_ timer: Timer) {
    heap.append(timer)
    positions[timer.key] = heap.count - 1
    moveUp(from: heap.count - 1)
  }

  private func remove(at position: Int) -> Timer {
    let timer = heap[position]
    positions[timer.key] = nil
    let last = heap.removeLast()
    guard position < heap.count else { return timer }
    heap[position] = last
    positions[last.key] = position
    moveUp(from: position)
    moveDown(from: positions[last.key] ?? position)
    return timer
  }

  private func moveUp(from position: Int) {
    var position = position
    while position > 0 {
      let parent = (position - 1) / 2
      guard heap[position].deadline < heap[parent].deadline else { return }
      swap(position, parent)
      position = parent
    }
  }

  private func moveDown(from position: Int) {
    var position = position
    while true {
      var next = position
      for child in [2 * position + 1, 2 * position + 2]
      where child < heap.count && heap[child].deadline < heap[next].deadline { next = child }
      guard next != position else { return }
      swap(position, next)
      position = next
    }
  }

  private func swap(_ first: Int, _ second: Int) {
    heap.swapAt(first, second)
    positions[heap[first].key] = first
    positions[heap[second].key] = second
  }
}
