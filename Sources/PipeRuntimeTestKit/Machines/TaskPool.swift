import Glibc
import PipeRuntime
import Synchronization

/// Detects when no task of this process is ready to run.
///
/// Swift runs tasks on a pool with one thread for each processor, in the order in which the tasks
/// become ready. This type occupies all threads of the pool with its own jobs at the same time.
/// When this succeeds, every job that was ready before has run until its next suspension.
enum TaskPool {
  private static let priorities: [TaskPriority] = [.high, .medium, .low, .background]
  private static let lastFlush = Locked<Task<Bool, Never>?>(nil)

  /// Runs all jobs that are ready at the time of the call. Jobs that become ready during the call
  /// may have to wait for the next call.
  /// - Returns: Whether all these jobs have run. `false` means that a thread was busy for more than
  ///   100 ms.
  static func flush() async -> Bool {
    // Only one call can run at a time. Two calls could each occupy some of the threads, and would
    // then wait for each other forever.
    let task = lastFlush.withLock { lastFlush in
      let before = lastFlush
      let task = Task.detached {
        _ = await before?.value
        var isFlushed = true
        for priority in priorities where await !fill(priority) { isFlushed = false }
        return isFlushed
      }
      lastFlush = task
      return task
    }
    return await task.value
  }

  /// Occupies, at the same time, all threads that run tasks with this priority. Returns `false` if
  /// a thread was busy for more than 100 ms.
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

  /// The number of processors on which this process may run.
  private static let processorCount: Int = {
    // Parses a line such as `Cpus_allowed: ff,ffffffff`, because `sched_getaffinity` is not
    // available in Swift.
    let descriptor = open("/proc/self/status", O_RDONLY)
    defer { close(descriptor) }
    let status = (try? FileSystem.read(descriptor)) ?? []
    let line = String(decoding: status, as: UTF8.self).split(separator: "\n")
      .first { $0.hasPrefix("Cpus_allowed:") }
    let mask = line?.dropFirst("Cpus_allowed:".count).compactMap(\.hexDigitValue) ?? []
    return max(1, mask.reduce(0) { $0 + $1.nonzeroBitCount })
  }()
}
