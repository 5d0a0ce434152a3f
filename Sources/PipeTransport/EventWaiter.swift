import CProcess
import Glibc

/// Waits until one of many descriptors is readable, or until a deadline. Uses epoll and timerfd,
/// whose cost does not grow with the number of descriptors.
final class EventWaiter {
  private let descriptor: Int32
  /// A timer that fires at the deadline of the wait or earlier. `wait` sets the timer again only if
  /// the new deadline is before `alarmTime`. This saves system calls, because most deadlines are
  /// cancelled before they are due. If each wait had its own timeout, the system would set and
  /// cancel a timer in each wait.
  private let alarmDescriptor: Int32
  /// The time at which the alarm fires, on the boot clock; `nil` if the alarm is not set. Unit:
  /// nanoseconds.
  // Exclusivity is not checked at run time, because each event reads this property, and only the
  // loop's thread uses this object.
  @exclusivity(unchecked)
  private var alarmTime: Int64?
  private let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 64)
  /// The number of each watched descriptor, from the last call of `add`.
  @exclusivity(unchecked)
  private var numbersByDescriptor: [Int32: UInt64] = [:]
  /// The numbers of descriptors that epoll does not support, such as regular files. These
  /// descriptors count as always readable.
  @exclusivity(unchecked)
  private var alwaysReadableNumbers: [Int32: UInt64] = [:]

  init() {
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    precondition(descriptor >= 0, "epoll_create1: errno \(errno)")
    alarmDescriptor = timerfd_create(CLOCK_BOOTTIME, Int32(TFD_NONBLOCK | TFD_CLOEXEC))
    precondition(alarmDescriptor >= 0, "timerfd_create: errno \(errno)")
    events.initialize(repeating: epoll_event())
    add(alarmDescriptor, Self.alarmNumber)
  }

  /// The number that identifies the alarm. The numbers of descriptors begin at 1.
  private static let alarmNumber: UInt64 = 0

  deinit {
    close(descriptor)
    close(alarmDescriptor)
    events.deallocate()
  }

  /// Watches the descriptor `watched`. When the descriptor is readable, `wait` reports `number`.
  func add(_ watched: Int32, _ number: UInt64) {
    var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: number))
    numbersByDescriptor[watched] = number
    alwaysReadableNumbers[watched] = nil
    if epoll_ctl(descriptor, EPOLL_CTL_ADD, watched, &event) == 0 { return }
    switch errno {
    case EPERM: alwaysReadableNumbers[watched] = number
    case EEXIST: _ = epoll_ctl(descriptor, EPOLL_CTL_MOD, watched, &event)
    case let code: preconditionFailure("epoll_ctl(\(watched)): errno \(code)")
    }
  }

  /// Stops watching a descriptor. Does nothing if the descriptor was closed, reused and added again
  /// with another number.
  func remove(_ watched: Int32, _ number: UInt64) {
    guard numbersByDescriptor[watched] == number else { return }
    numbersByDescriptor[watched] = nil
    guard alwaysReadableNumbers.removeValue(forKey: watched) == nil else { return }
    var event = epoll_event()
    _ = epoll_ctl(descriptor, EPOLL_CTL_DEL, watched, &event)
  }

  /// Waits until a descriptor is readable or at end of file, or until the deadline. Calls `found`
  /// with the number of each ready descriptor; if more than 64 are ready, later calls report the
  /// rest.
  /// - Parameter due: The deadline, on the boot clock. `nil` waits without limit, 0 does not wait.
  ///   Unit: nanoseconds.
  func wait(until due: Int64?, _ found: (UInt64) -> Void) {
    let waits = due != 0 && alwaysReadableNumbers.isEmpty
    if waits, let due, due < alarmTime ?? .max { setAlarm(due) }
    let count = epoll_wait(
      descriptor, events.baseAddress, Int32(events.count), waits ? -1 : 0)
    // The count is negative if a signal interrupted the wait.
    for index in 0..<max(0, Int(count)) {
      let number = events[index].data.u64
      if number == Self.alarmNumber { handleAlarm() } else { found(number) }
    }
    if !alwaysReadableNumbers.isEmpty {
      for number in alwaysReadableNumbers.values { found(number) }
    }
  }

  private func setAlarm(_ due: Int64) {
    var time = itimerspec()
    time.it_value.tv_sec = Int(due / 1_000_000_000)
    // Zero seconds and nanoseconds would disarm the timer.
    time.it_value.tv_nsec = max(1, Int(due % 1_000_000_000))
    let code = timerfd_settime(alarmDescriptor, Int32(TFD_TIMER_ABSTIME), &time, nil)
    precondition(code == 0, "timerfd_settime: errno \(errno)")
    alarmTime = due
  }

  private func handleAlarm() {
    var count: UInt64 = 0
    _ = read(alarmDescriptor, &count, 8)
    alarmTime = nil
  }
}
