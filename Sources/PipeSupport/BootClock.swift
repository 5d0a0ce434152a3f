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
    package var timeOfDay: Int64
    /// The time since the system booted, including sleep.
    package var timeSinceBoot: Int64

    package init(timeOfDay: Int64, timeSinceBoot: Int64) {
      self.timeOfDay = timeOfDay
      self.timeSinceBoot = timeSinceBoot
    }

    /// The time of day at which the system booted, calculated from this instant.
    package var bootTime: Int64 { timeOfDay &- timeSinceBoot }

    /// Returns the time of day of this instant. If the system's time of day was set between this
    /// instant and `now`, the result is corrected; corrections of less than a second are ignored.
    package func timeOfDay(asOf now: Instant) -> Int64 {
      let adjusted = now.bootTime &+ timeSinceBoot
      return abs(adjusted &- timeOfDay) < 1_000_000_000 ? timeOfDay : adjusted
    }

    /// Returns the time since an earlier instant; zero if `earlier` is later.
    ///
    /// - Parameter isSameBoot: Whether the system has not rebooted between the instants. If true,
    ///   the result is exact. If false, the result is the difference of the times of day, which is
    ///   wrong if the time of day was set between the instants.
    package func duration(since earlier: Instant, isSameBoot: Bool) -> Duration {
      let elapsed =
        isSameBoot ? timeSinceBoot &- earlier.timeSinceBoot : timeOfDay &- earlier.timeOfDay
      return .nanoseconds(max(0, elapsed))
    }
  }

  package static var now: Instant {
    Instant(timeOfDay: WallClock.nanoseconds, timeSinceBoot: nanoseconds)
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
