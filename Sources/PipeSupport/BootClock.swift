#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// Time that goes on from one process to the next: steady until the system is started again.
package enum BootClock {
  /// An instant on the steady clock, and the time of day beside it. Unit: nanoseconds.
  package struct Instant: Hashable, Sendable {
    /// Since 1970.
    package var time: Int64
    /// Since the system was started, sleep included.
    package var clock: Int64

    package init(time: Int64, clock: Int64) {
      self.time = time
      self.clock = clock
    }

    /// The time of day at the system's start, by the present setting of the clock.
    package var offset: Int64 { time &- clock }

    /// The time of day at which this was, by the present setting of the clock: the one of then, unless the clock was
    /// set in between by a second or more.
    package func time(asOf now: Instant) -> Int64 {
      let present = now.offset &+ clock
      return abs(present &- time) < 1_000_000_000 ? time : present
    }

    /// The time that has passed since an earlier instant, never negative. The time of day, which can
    /// be set, counts only where the system was started again in between.
    package func duration(since earlier: Instant, isSameBoot: Bool) -> Duration {
      let passed = isSameBoot ? clock &- earlier.clock : time &- earlier.time
      return .nanoseconds(max(0, passed))
    }
  }

  package static var now: Instant {
    Instant(time: WallClock.nanoseconds, clock: nanoseconds)
  }

  /// The steady clock alone. Unit: nanoseconds since the system was started, sleep included.
  package static var nanoseconds: Int64 {
    var clock = timespec()
    #if canImport(Darwin)
      clock_gettime(CLOCK_MONOTONIC, &clock)
    #else
      clock_gettime(CLOCK_BOOTTIME, &clock)
    #endif
    return Int64(clock.tv_sec) * 1_000_000_000 + Int64(clock.tv_nsec)
  }
}

/// The time of day.
package enum WallClock {
  /// Unit: nanoseconds since 1970.
  package static var nanoseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
  }
}
