#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The time of day.
package enum WallClock {
  /// Unit: nanoseconds since 1970.
  package static var nanoseconds: Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec) * 1_000_000_000 + Int64(now.tv_nsec)
  }
}
