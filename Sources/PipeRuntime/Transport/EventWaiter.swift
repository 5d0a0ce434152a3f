import CProcess
import Glibc

/// Waits for any of many descriptors, in a time that does not grow with their number (epoll).
final class EventWaiter {
  private let descriptor: Int32
  private let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 64)
  /// Which number each watched descriptor was last added with.
  private var numbers: [Int32: UInt64] = [:]
  /// What cannot be waited for, such as files: always readable.
  private var files: [Int32: UInt64] = [:]

  init() {
    descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
    precondition(descriptor >= 0, "epoll_create1: errno \(errno)")
    events.initialize(repeating: epoll_event())
  }

  deinit {
    close(descriptor)
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
  /// - Parameter milliseconds: The longest wait; -1 is without limit.
  func wait(milliseconds: Int, _ found: (UInt64) -> Void) {
    let count = epoll_wait(
      descriptor, events.baseAddress, Int32(events.count),
      files.isEmpty ? Int32(milliseconds) : 0)
    // Interrupted by a signal: nothing was found.
    for place in 0..<max(0, Int(count)) { found(events[place].data.u64) }
    if !files.isEmpty { for number in files.values { found(number) } }
  }
}
