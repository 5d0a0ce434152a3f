/// Runs tasks on a loop's thread.
package final class LoopExecutor: TaskExecutor {
  private let handle: LoopHandle

  package init(_ handle: LoopHandle) { self.handle = handle }

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    handle.post { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
