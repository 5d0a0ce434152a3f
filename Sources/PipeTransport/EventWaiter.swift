import CProcess
import Glibc

/// Waits for any of many descriptors and for an instant, in a time that does not grow with their
/// number (epoll, timerfd).
final class EventWaiter {
  private let descriptor: Int32
  /// Fires at an instant. It is set anew only where the wait may be shorter than it was: mostly a
  /// timer is given up before it is due, and a wait with a limit of its own would set and give up
  /// one each time.
  private let alarm: Int32
  /// When it fires; `nil` where it is not set.
  // Exclusivity is not checked at run time for what each event touches: the loop's thread alone does.
  @exclusivity(unchecked)
  private var alarmDue: Int64?
  private let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 64)
  /// Which number each watched descriptor was last added with.
  @exclusivity(unchecked)
  private var numbers: [Int32: UInt64] = [:]
  /// What cannot be waited for, such as files: always readable.
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

  /// Other numbers begin at 1.
  private static let alarmNumber: UInt64 = 0

  deinit {
    close(descriptor)
    close(alarm)
    events.deallocate()
  }

  /// Watches a descriptor, which is told of by the number.
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

  /// Watches it no longer. The number of one that was closed may be another one's by now.
  func remove(_ watched: Int32, _ number: UInt64) {
    guard numbers[watched] == number else { return }
    numbers[watched] = nil
    guard files.removeValue(forKey: watched) == nil else { return }
    var event = epoll_event()
    _ = epoll_ctl(descriptor, EPOLL_CTL_DEL, watched, &event)
  }

  /// Waits, and calls back with the numbers of descriptors that are readable or at their end; with
  /// some of them where they are many.
  /// - Parameter due: The end of the wait, on the steady clock; `nil` is without limit, 0 does not
  ///   wait. Unit: nanoseconds.
  func wait(until due: Int64?, _ found: (UInt64) -> Void) {
    let waits = due != 0 && files.isEmpty
    if waits, let due, due < alarmDue ?? .max { setAlarm(due) }
    let count = epoll_wait(
      descriptor, events.baseAddress, Int32(events.count), waits ? -1 : 0)
    // Interrupted by a signal: nothing was found.
    for place in 0..<max(0, Int(count)) {
      let number = events[place].data.u64
      if number == Self.alarmNumber { alarmFired() } else { found(number) }
    }
    if !files.isEmpty { for number in files.values { found(number) } }
  }

  private func setAlarm(_ due: Int64) {
    var time = itimerspec()
    time.it_value.tv_sec = Int(due / 1_000_000_000)
    // All zero would turn it off.
    time.it_value.tv_nsec = max(1, Int(due % 1_000_000_000))
    let code = timerfd_settime(alarm, Int32(TFD_TIMER_ABSTIME), &time, nil)
    precondition(code == 0, "timerfd_settime: errno \(errno)")
    alarmDue = due
  }

  private func alarmFired() {
    var count: UInt64 = 0
    _ = read(alarm, &count, 8)
    alarmDue = nil
  }
}
