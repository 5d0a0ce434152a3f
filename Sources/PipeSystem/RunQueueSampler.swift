import PipeSupport

/// Measures how long a process waits for a processor, from samples of the kernel's statistics of
/// its threads. The process's wait between two samples is the longest wait of any of its threads.
///
/// The wait of a thread that has started between two samples counts from its start. The wait of a
/// thread that has ended between two samples is not counted. The kernel counts a wait only when the
/// wait ends. So if a thread waits during the whole time between two samples, the sampler measures
/// this wait with a clock, and later subtracts the measured time from the kernel's count.
package struct RunQueueSampler {
  /// The kernel's statistics of a thread.
  package struct Thread: Hashable, Sendable {
    /// The time on a processor since the thread started.
    package var cpuTime: Duration
    /// The time in the run queue since the thread started. A wait that is still in progress is not
    /// included.
    package var queueTime: Duration
    /// The number of times that the thread was scheduled on a processor.
    package var scheduleCount: Int
    /// Whether the thread is on a processor or in the run queue.
    package var isRunnable: Bool

    package init(
      cpuTime: Duration = .zero, queued: Duration = .zero, scheduleCount: Int = 0,
      isRunnable: Bool = false
    ) {
      self.cpuTime = cpuTime
      self.queueTime = queued
      self.scheduleCount = scheduleCount
      self.isRunnable = isRunnable
    }

    /// Reads the statistics in a directory of `/proc`; `nil` if there is no such directory, or the
    /// kernel keeps no statistics.
    fileprivate init?(in directory: String) {
      // Both times are in nanoseconds. Source: sched-stats.rst of the kernel.
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
    var lastReading: Thread
    /// The wait that the sampler has measured with a clock, and that the kernel has not counted
    /// yet.
    var uncountedQueueTime: Duration = .zero

    /// Takes a new sample of the thread. Returns how long the thread has waited since the previous
    /// sample.
    /// - Parameter passed: The time since the previous sample.
    mutating func take(_ thread: Thread, after passed: Duration) -> Duration {
      let counted = max(.zero, thread.queueTime - lastReading.queueTime)
      let cpuTime = max(.zero, thread.cpuTime - lastReading.cpuTime)
      let fresh = max(.zero, counted - uncountedQueueTime)
      uncountedQueueTime -= min(uncountedQueueTime, counted)
      defer { lastReading = thread }
      guard lastReading.isRunnable, thread.isRunnable,
        thread.scheduleCount == lastReading.scheduleCount
      else {
        uncountedQueueTime = .zero
        return fresh
      }
      let waiting = max(.zero, passed - cpuTime - counted)
      uncountedQueueTime += waiting
      return fresh + waiting
    }
  }

  private var watchedThreads: [Int32: WatchedThread] = [:]
  private var lastSampleTime: ContinuousClock.Instant?

  package init() {}

  /// Returns the current threads of a process by their ids. If there is no such process, returns an
  /// empty dictionary.
  package static func threads(of pid: Int32) -> [Int32: Thread] {
    let directory = "/proc/\(pid)/task"
    var threads: [Int32: Thread] = [:]
    for name in FileSystem.entryNames(of: directory) {
      // Omits a thread that ends during the loop, for which the initializer returns `nil`.
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
    defer { lastSampleTime = now }
    guard let lastSampleTime else {
      watchedThreads = threads.mapValues { WatchedThread(lastReading: $0) }
      return .zero
    }
    var longestQueueTime: Duration = .zero
    var watchedThreads: [Int32: WatchedThread] = [:]
    for (id, thread) in threads {
      var watchedThread = self.watchedThreads[id] ?? WatchedThread(lastReading: Thread())
      longestQueueTime = max(
        longestQueueTime, watchedThread.take(thread, after: now - lastSampleTime))
      watchedThreads[id] = watchedThread
    }
    self.watchedThreads = watchedThreads
    return longestQueueTime
  }
}
