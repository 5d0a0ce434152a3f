import PipeRuntime
import PipeSupport
import PipeSystem

/// Runs a task, and what it awaits, on the thread that waits for it: what blocks in a verb keeps no other
/// task from running, and no thread is started before the verb starts one.
final class MainThread: TaskExecutor {
  private enum Turn {
    case job(UnownedJob)
    case end(ExitCode)
  }

  private let turns = Locked<[Turn]>([])
  private let hasTurn = Semaphore()

  /// Runs an operation on this thread until it has returned.
  static func run(_ operation: sending @escaping () async -> ExitCode) -> ExitCode {
    let thread = MainThread()
    Task(executorPreference: thread) { thread.append(.end(await operation())) }
    while true {
      thread.hasTurn.wait()
      switch thread.turns.withLock({ $0.removeFirst() }) {
      case .job(let job): job.runSynchronously(on: thread.asUnownedTaskExecutor())
      case .end(let code): return code
      }
    }
  }

  func enqueue(_ job: consuming ExecutorJob) { append(.job(UnownedJob(job))) }

  private func append(_ turn: Turn) {
    turns.withLock { $0.append(turn) }
    hasTurn.signal()
  }
}
