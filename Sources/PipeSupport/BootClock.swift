#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A monotonic clock that counts from the boot of the system and shows the same time in all
/// processes.
package enum BootClock {
  /// A reading of the boot clock, and the time of day at that moment. Unit: nanoseconds.
  package struct Instant: Hashable, Sendable {
    /// The time since 1970.
    package var time: Int64
    /// The time since the system booted, including sleep.
    package var clock: Int64

    package init(time: Int64, clock: Int64) {
      self.time = time
      self.clock = clock
    }

    /// The time of day at which the system booted, calculated from this instant.
    package var offset: Int64 { time &- clock }

    /// Returns the time of day of this instant, corrected if the system's time of day was set
    /// between this instant and `now`. A correction of less than a second is ignored.
    package func time(asOf now: Instant) -> Int64 {
      let adjusted = now.offset &+ clock
      return abs(adjusted &- time) < 1_000_000_000 ? time : adjusted
    }

    /// Returns the time that has passed since an earlier instant, never negative. Compares the boot
    /// clock. If the system has rebooted in between, compares the times of day, which may have been
    /// set.
    package func duration(since earlier: Instant, isSameBoot: Bool) -> Duration {
      let elapsed = isSameBoot ? clock &- earlier.clock : time &- earlier.time
      return .nanoseconds(max(0, elapsed))
    }
  }

  package static var now: Instant {
    Instant(time: WallClock.nanoseconds, clock: nanoseconds)
  }

  /// The current time of the boot clock. Unit: nanoseconds since the system booted, including
  /// sleep.
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
  /// The current time of day. Unit: nanoseconds since 1970.
  package static var nanoseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
  }
}
