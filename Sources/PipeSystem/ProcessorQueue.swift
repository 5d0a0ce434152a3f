import PipeSupport

/// How long a process stands in the queue for a processor, from samples of what the system counts.
///
/// Of a thread that still stands there the system counts nothing: what was not used is then taken for
/// waiting, and taken off again from what is counted later.
package struct ProcessorQueue {
  /// What the system says of a process's first thread.
  package struct Sample: Hashable, Sendable {
    /// Time on a processor since it began.
    package var computed: Duration
    /// Time in the queue since it began, but for a wait that has not ended.
    package var queued: Duration
    /// Whether it is on a processor, or in the queue for one.
    package var isRunnable: Bool

    package init(computed: Duration, queued: Duration, isRunnable: Bool) {
      self.computed = computed
      self.queued = queued
      self.isRunnable = isRunnable
    }

    /// Of a process now; `nil` where there is none, or the system does not count.
    package init?(of pid: Int32) {
      // Time on a processor, time in the queue, both in nanoseconds, and how often it was given one.
      let times = FileSystem.text(of: "/proc/\(pid)/schedstat")?.split(separator: " ")
      // The name may have spaces and brackets.
      let state = FileSystem.text(of: "/proc/\(pid)/stat")?.split(separator: ") ").last?.first
      guard let times, times.count == 3, let computed = Int64(times[0]),
        let queued = Int64(times[1]), let state
      else { return nil }
      self.init(
        computed: .nanoseconds(computed), queued: .nanoseconds(queued), isRunnable: state == "R")
    }
  }

  private var last: (sample: Sample, at: ContinuousClock.Instant)?
  /// What was taken for waiting and is not counted by the system yet.
  private var ahead: Duration = .zero

  package init() {}

  /// - Returns: How long the process stood in the queue since the sample before; nothing at the first.
  package mutating func take(_ sample: Sample, at now: ContinuousClock.Instant) -> Duration {
    defer { last = (sample, now) }
    guard let last else { return .zero }
    let counted = max(.zero, sample.queued - last.sample.queued)
    let fresh = max(.zero, counted - ahead)
    ahead -= min(ahead, counted)
    guard sample.isRunnable else {
      ahead = .zero
      return fresh
    }
    let computed = max(.zero, sample.computed - last.sample.computed)
    let waiting = max(.zero, now - last.at - computed - counted)
    ahead += waiting
    return fresh + waiting
  }
}
