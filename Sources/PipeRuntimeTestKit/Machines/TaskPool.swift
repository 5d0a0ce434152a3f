import Glibc
import PipeRuntime
import Synchronization

/// Detects when no task of this process is ready to run.
///
/// Swift runs tasks on as many threads as there are processors, in the order in which they became
/// ready. When a job of this type runs on each of these threads at the same time, every job that
/// was ready before has run up to its next suspension.
enum TaskPool {
  private static let priorities: [TaskPriority] = [.high, .medium, .low, .background]
  private static let last = Locked<Task<Bool, Never>?>(nil)

  /// Runs all jobs that are ready now. A job that becomes ready during this call may run only in
  /// the next call.
  /// - Returns: Whether these jobs have run; `false` if a thread was busy for too long.
  static func flush() async -> Bool {
    // One call at a time: two calls that each hold some of the threads would deadlock.
    let task = last.withLock { last in
      let before = last
      let task = Task.detached {
        _ = await before?.value
        var isFlushed = true
        for priority in priorities where await !fill(priority) { isFlushed = false }
        return isFlushed
      }
      last = task
      return task
    }
    return await task.value
  }

  /// Occupies all threads that run tasks of the priority, at the same time.
  private static func fill(_ priority: TaskPriority) async -> Bool {
    let count = processorCount
    let arrivals = Arrivals()
    let deadline = ContinuousClock.now.advanced(by: .milliseconds(100))
    let tasks = (0..<count).map { _ in
      Task.detached(priority: priority) {
        arrivals.count.wrappingAdd(1, ordering: .sequentiallyConsistent)
        while arrivals.count.load(ordering: .sequentiallyConsistent) < count {
          if ContinuousClock.now > deadline { return false }
          sched_yield()
        }
        return true
      }
    }
    var isFilled = true
    for task in tasks where await !task.value { isFilled = false }
    return isFilled
  }

  private final class Arrivals: Sendable {
    let count = Atomic(0)
  }

  /// The number of processors that this process may use.
  private static let processorCount: Int = {
    // Parses a line like `Cpus_allowed: ff,ffffffff`, because `sched_getaffinity` is not available
    // in Swift.
    let descriptor = open("/proc/self/status", O_RDONLY)
    defer { close(descriptor) }
    let status = (try? FileSystem.read(descriptor)) ?? []
    let line = String(decoding: status, as: UTF8.self).split(separator: "\n")
      .first { $0.hasPrefix("Cpus_allowed:") }
    let mask = line?.dropFirst("Cpus_allowed:".count).compactMap(\.hexDigitValue) ?? []
    return max(1, mask.reduce(0) { $0 + $1.nonzeroBitCount })
  }()
}
