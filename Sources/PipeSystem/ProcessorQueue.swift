import PipeSupport

/// How long a process stands in the queue for a processor, from samples of what the system counts of its
/// threads: between two samples as long as that of them which stood there longest.
///
/// A thread that has come in between has stood there since it began; what one stood there that has ended
/// in between is not known any more. Of a wait that goes on the system counts nothing: it is taken from the
/// clock where both samples are of one and the same wait, and taken off again from what is counted later.
package struct ProcessorQueue {
  /// What the system says of a thread.
  package struct Thread: Hashable, Sendable {
    /// Time on a processor since it began.
    package var computed: Duration
    /// Time in the queue since it began, but for a wait that has not ended.
    package var queued: Duration
    /// How often it was given a processor.
    package var turns: Int
    /// Whether it is on a processor, or in the queue for one.
    package var isRunnable: Bool

    package init(
      computed: Duration = .zero, queued: Duration = .zero, turns: Int = 0, isRunnable: Bool = false
    ) {
      self.computed = computed
      self.queued = queued
      self.turns = turns
      self.isRunnable = isRunnable
    }

    /// What is counted in a directory of `/proc`; `nil` where there is none, or the system does not count.
    fileprivate init?(in directory: String) {
      // Both times in nanoseconds. Source: sched-stats.rst of the kernel.
      let counts = FileSystem.text(of: directory + "/schedstat")?.split { $0 == " " || $0 == "\n" }
      // The name may have spaces and brackets.
      let state = FileSystem.text(of: directory + "/stat")?.split(separator: ") ").last?.first
      guard let counts, counts.count == 3, let computed = Int64(counts[0]),
        let queued = Int64(counts[1]), let turns = Int(counts[2]), let state
      else { return nil }
      self.init(
        computed: .nanoseconds(computed), queued: .nanoseconds(queued), turns: turns,
        isRunnable: state == "R")
    }
  }

  private struct Watched {
    var last: Thread
    /// What was taken from the clock and is not counted by the system yet.
    var ahead: Duration = .zero

    /// - Parameter passed: The time since the sample before.
    mutating func take(_ thread: Thread, after passed: Duration) -> Duration {
      let counted = max(.zero, thread.queued - last.queued)
      let computed = max(.zero, thread.computed - last.computed)
      let fresh = max(.zero, counted - ahead)
      ahead -= min(ahead, counted)
      defer { last = thread }
      guard last.isRunnable, thread.isRunnable, thread.turns == last.turns else {
        ahead = .zero
        return fresh
      }
      let waiting = max(.zero, passed - computed - counted)
      ahead += waiting
      return fresh + waiting
    }
  }

  private var watched: [Int32: Watched] = [:]
  private var lastSample: ContinuousClock.Instant?

  package init() {}

  /// The threads of a process now, by their ids; none where there is no such process.
  package static func threads(of pid: Int32) -> [Int32: Thread] {
    let directory = "/proc/\(pid)/task"
    var threads: [Int32: Thread] = [:]
    for name in FileSystem.entries(of: directory) {
      // One that ends meanwhile is left out.
      if let id = Int32(name) { threads[id] = Thread(in: directory + "/" + name) }
    }
    return threads
  }

  /// - Returns: How long the process stood in the queue since the sample before; nothing at the first.
  package mutating func take(
    _ threads: [Int32: Thread], at now: ContinuousClock.Instant
  ) -> Duration {
    defer { lastSample = now }
    guard let lastSample else {
      watched = threads.mapValues { Watched(last: $0) }
      return .zero
    }
    var longest: Duration = .zero
    var watched: [Int32: Watched] = [:]
    for (id, thread) in threads {
      var one = self.watched[id] ?? Watched(last: Thread())
      longest = max(longest, one.take(thread, after: now - lastSample))
      watched[id] = one
    }
    self.watched = watched
    return longest
  }
}
