/// Runs tasks on a loop's thread.
final class LoopExecutor: TaskExecutor {
  private let handle: LoopHandle

  init(_ handle: LoopHandle) { self.handle = handle }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    handle.post { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
