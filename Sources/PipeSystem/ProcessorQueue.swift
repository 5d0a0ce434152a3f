import PipeSupport

/// Measures how long a process waits for a processor, from samples of the kernel's statistics of
/// its threads. The process's wait between two samples is the longest wait of any of its threads.
///
/// If a thread started between the samples, its wait counts from its start. If a thread ended
/// between the samples, its wait is lost. The kernel does not count a wait that is still in
/// progress. If a wait lasts from one sample to the next, the sampler measures it with a clock.
/// When the kernel counts that wait later, the sampler subtracts the measured time.
package struct RunQueueSampler {
  /// The kernel's statistics of a thread.
  package struct Thread: Hashable, Sendable {
    /// The time on a processor since the thread started.
    package var cpuTime: Duration
    /// The time in the run queue since the thread started, without a wait that is still in progress.
    package var queued: Duration
    /// The number of times that the thread was scheduled on a processor.
    package var scheduleCount: Int
    /// Whether the thread is on a processor or in the run queue.
    package var isRunnable: Bool

    package init(
      cpuTime: Duration = .zero, queued: Duration = .zero, scheduleCount: Int = 0,
      isRunnable: Bool = false
    ) {
      self.cpuTime = cpuTime
      self.queued = queued
      self.scheduleCount = scheduleCount
      self.isRunnable = isRunnable
    }

    /// Reads the statistics from a directory of `/proc`; `nil` if there is none, or if the kernel does
    /// not keep statistics.
    fileprivate init?(in directory: String) {
      // Both times in nanoseconds. Source: sched-stats.rst of the kernel.
      let counts = FileSystem.text(of: directory + "/schedstat")?.split { $0 == " " || $0 == "\n" }
      // The name may contain spaces and parentheses.
      let state = FileSystem.text(of: directory + "/stat")?.split(separator: ") ").last?.first
      guard let counts, counts.count == 3, let cpuTime = Int64(counts[0]),
        let queued = Int64(counts[1]), let scheduleCount = Int(counts[2]), let state
      else { return nil }
      self.init(
        cpuTime: .nanoseconds(cpuTime), queued: .nanoseconds(queued), scheduleCount: scheduleCount,
        isRunnable: state == "R")
    }
  }

  private struct WatchedThread {
    var last: Thread
    /// The wait that the sampler has measured with a clock, and that the kernel has not counted
    /// yet.
    var uncounted: Duration = .zero

    /// Takes a new sample of the thread and returns its wait since the previous sample.
    /// - Parameter passed: The time since the previous sample.
    mutating func take(_ thread: Thread, after passed: Duration) -> Duration {
      let counted = max(.zero, thread.queued - last.queued)
      let cpuTime = max(.zero, thread.cpuTime - last.cpuTime)
      let fresh = max(.zero, counted - uncounted)
      uncounted -= min(uncounted, counted)
      defer { last = thread }
      guard last.isRunnable, thread.isRunnable, thread.scheduleCount == last.scheduleCount else {
        uncounted = .zero
        return fresh
      }
      let waiting = max(.zero, passed - cpuTime - counted)
      uncounted += waiting
      return fresh + waiting
    }
  }

  private var watched: [Int32: WatchedThread] = [:]
  private var lastSample: ContinuousClock.Instant?

  package init() {}

  /// Returns the current threads of a process by their ids; an empty dictionary if there is no such
  /// process.
  package static func threads(of pid: Int32) -> [Int32: Thread] {
    let directory = "/proc/\(pid)/task"
    var threads: [Int32: Thread] = [:]
    for name in FileSystem.entries(of: directory) {
      // Omits a thread that ends during the loop.
      if let id = Int32(name) { threads[id] = Thread(in: directory + "/" + name) }
    }
    return threads
  }

  /// Takes a sample of the threads of a process.
  /// - Returns: How long the process has waited since the previous sample; zero for the first
  ///   sample.
  package mutating func take(
    _ threads: [Int32: Thread], at now: ContinuousClock.Instant
  ) -> Duration {
    defer { lastSample = now }
    guard let lastSample else {
      watched = threads.mapValues { WatchedThread(last: $0) }
      return .zero
    }
    var longest: Duration = .zero
    var watched: [Int32: WatchedThread] = [:]
    for (id, thread) in threads {
      var one = self.watched[id] ?? WatchedThread(last: Thread())
      longest = max(longest, one.take(thread, after: now - lastSample))
      watched[id] = one
    }
    self.watched = watched
    return longest
  }
}
