import CProcess
import Glibc

/// Waits for any of many descriptors, or for a deadline. The cost does not grow with the number of
/// descriptors (epoll, timerfd).
final class EventWaiter {
  private let descriptor: Int32
  /// A timer that fires at the deadline. It is set again only if the next wait may be shorter than
  /// the last one. Most timers are cancelled before they are due, and a timeout in each wait would
  /// set and cancel a system timer each time.
  private let alarm: Int32
  /// When the alarm fires; `nil` if it is not set.
  // No run-time exclusivity checks for state that each event touches: only the loop's thread uses it.
  @exclusivity(unchecked)
  private var alarmDue: Int64?
  private let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 64)
  /// The number with which each watched descriptor was last added.
  @exclusivity(unchecked)
  private var numbers: [Int32: UInt64] = [:]
  /// Descriptors that epoll does not support, such as files. They are always readable.
  @exclusivity(unchecked)
  private var files: [Int32: UInt64] = [:]

  init() {
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    precondition(descriptor >= 0, "epoll_create1: errno \(errno)")
    alarm = timerfd_create(CLOCK_BOOTTIME, Int32(TFD_NONBLOCK | TFD_CLOEXEC))
    precondition(alarm >= 0, "timerfd_create: errno \(errno)")
    events.initialize(repeating: epoll_event())
    add(alarm, Self.alarmNumber)
  }

  /// The number of the alarm. Other numbers begin at 1.
  private static let alarmNumber: UInt64 = 0

  deinit {
    close(descriptor)
    close(alarm)
    events.deallocate()
  }

  /// Watches a descriptor, which is reported by the number.
  func add(_ watched: Int32, _ number: UInt64) {
    var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: number))
    numbers[watched] = number
    files[watched] = nil
    if epoll_ctl(descriptor, EPOLL_CTL_ADD, watched, &event) == 0 { return }
    switch errno {
    case EPERM: files[watched] = number
    case EEXIST: _ = epoll_ctl(descriptor, EPOLL_CTL_MOD, watched, &event)
    case let code: preconditionFailure("epoll_ctl(\(watched)): errno \(code)")
    }
  }

  /// Stops watching a descriptor, unless it was closed and then added again with another number.
  func remove(_ watched: Int32, _ number: UInt64) {
    guard numbers[watched] == number else { return }
    numbers[watched] = nil
    guard files.removeValue(forKey: watched) == nil else { return }
    var event = epoll_event()
    _ = epoll_ctl(descriptor, EPOLL_CTL_DEL, watched, &event)
  }

  /// Waits, and calls back with the numbers of descriptors that are readable or at end of file.
  /// Reports only some of them if many are ready.
  /// - Parameter due: The deadline, on the steady clock. `nil` waits without limit, 0 does not
  ///   wait. Unit: nanoseconds.
  func wait(until due: Int64?, _ found: (UInt64) -> Void) {
    let waits = due != 0 && files.isEmpty
    if waits, let due, due < alarmDue ?? .max { setAlarm(due) }
    let count = epoll_wait(
      descriptor, events.baseAddress, Int32(events.count), waits ? -1 : 0)
    // The count is negative if a signal interrupted the wait.
    for index in 0..<max(0, Int(count)) {
      let number = events[index].data.u64
      if number == Self.alarmNumber { handleAlarm() } else { found(number) }
    }
    if !files.isEmpty { for number in files.values { found(number) } }
  }

  private func setAlarm(_ due: Int64) {
    var time = itimerspec()
    time.it_value.tv_sec = Int(due / 1_000_000_000)
    // Zero seconds and nanoseconds would disarm the timer.
    time.it_value.tv_nsec = max(1, Int(due % 1_000_000_000))
    let code = timerfd_settime(alarm, Int32(TFD_TIMER_ABSTIME), &time, nil)
    precondition(code == 0, "timerfd_settime: errno \(errno)")
    alarmDue = due
  }

  private func handleAlarm() {
    var count: UInt64 = 0
    _ = read(alarm, &count, 8)
    alarmDue = nil
  }
}
