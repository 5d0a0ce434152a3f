import Glibc
import PipeSystem
import Testing

@Suite("The time spent waiting for a processor")
struct ProcessorQueueTests {
  private let start = ContinuousClock.now

  private func thread(
    _ cpuTime: Int, _ queued: Int, scheduleCount: Int = 1, runs: Bool
  ) -> RunQueueSampler.Thread {
    .init(
      cpuTime: .seconds(cpuTime), queued: .seconds(queued), scheduleCount: scheduleCount,
      isRunnable: runs)
  }

  @Test("Waiting time that the system has counted is reported once, after the first sample")
  func counted() {
    var queue = RunQueueSampler()
    #expect(queue.take([1: thread(5, 9, runs: false)], at: start) == .zero)
    #expect(
      queue.take([1: thread(6, 11, scheduleCount: 2, runs: false)], at: start + .seconds(10))
        == .seconds(2)
    )
    #expect(
      queue.take([1: thread(6, 11, scheduleCount: 2, runs: false)], at: start + .seconds(20))
        == .zero)
  }

  @Test("A wait in progress is reported once, and not again when the system counts it")
  func underWay() {
    var queue = RunQueueSampler()
    #expect(queue.take([1: thread(5, 9, runs: true)], at: start) == .zero)
    #expect(queue.take([1: thread(5, 9, runs: true)], at: start + .seconds(3)) == .seconds(3))
    #expect(queue.take([1: thread(5, 9, runs: true)], at: start + .seconds(4)) == .seconds(1))
    // Five seconds in all. Four of them were already returned.
    #expect(
      queue.take([1: thread(6, 14, scheduleCount: 2, runs: false)], at: start + .seconds(6))
        == .seconds(1))
    #expect(
      queue.take([1: thread(6, 16, scheduleCount: 3, runs: false)], at: start + .seconds(8))
        == .seconds(2))
  }

  @Test("A process that computes endlessly does not wait for a processor")
  func computing() {
    var queue = RunQueueSampler()
    #expect(queue.take([1: thread(0, 0, runs: true)], at: start) == .zero)
    #expect(queue.take([1: thread(7, 0, runs: true)], at: start + .seconds(7)) == .zero)
  }

  @Test(
    "A thread that sleeps is not waiting for a processor, even if it is runnable at each sample")
  func slept() {
    var queue = RunQueueSampler()
    #expect(queue.take([1: thread(0, 0, runs: true)], at: start) == .zero)
    #expect(
      queue.take([1: thread(0, 0, scheduleCount: 2, runs: true)], at: start + .seconds(7)) == .zero)
    #expect(
      queue.take([1: thread(0, 0, scheduleCount: 2, runs: false)], at: start + .seconds(8)) == .zero
    )
    #expect(
      queue.take([1: thread(0, 0, scheduleCount: 2, runs: true)], at: start + .seconds(9)) == .zero)
  }

  @Test("Among several threads, the longest wait of each sample counts")
  func longest() {
    var queue = RunQueueSampler()
    #expect(
      queue.take([1: thread(5, 9, runs: false), 2: thread(1, 1, runs: true)], at: start) == .zero)
    // The first thread waits for the second one, and not for a processor.
    #expect(
      queue.take(
        [1: thread(5, 9, runs: false), 2: thread(1, 1, runs: true)], at: start + .seconds(3))
        == .seconds(3))
    #expect(
      queue.take(
        [
          1: thread(6, 11, scheduleCount: 2, runs: false),
          2: thread(2, 5, scheduleCount: 2, runs: false),
        ],
        at: start + .seconds(6)) == .seconds(2))
  }

  @Test("Waiting time is counted from a thread's start to its end")
  func comeAndGone() {
    var queue = RunQueueSampler()
    #expect(
      queue.take([1: thread(5, 9, runs: false), 2: thread(0, 3, runs: false)], at: start) == .zero)
    #expect(
      queue.take(
        [1: thread(5, 9, runs: false), 3: thread(0, 2, runs: true)], at: start + .seconds(5))
        == .seconds(2))
    #expect(
      queue.take(
        [1: thread(5, 9, runs: false), 3: thread(0, 2, runs: true)], at: start + .seconds(6))
        == .seconds(1))
    #expect(queue.take([1: thread(5, 9, runs: false)], at: start + .seconds(9)) == .zero)
    // Another thread with a former thread's id.
    #expect(
      queue.take(
        [1: thread(5, 9, runs: false), 2: thread(0, 1, runs: false)], at: start + .seconds(10))
        == .seconds(1))
  }

  @Test("The wait for a processor is known for each thread of a process, if the process exists")
  func system() throws {
    let threads = RunQueueSampler.threads(of: getpid())
    #expect(threads.count > 1)
    #expect(threads.values.contains { $0.cpuTime > .zero && $0.scheduleCount > 0 && $0.isRunnable })
    #expect(RunQueueSampler.threads(of: .max).isEmpty)
  }
}
