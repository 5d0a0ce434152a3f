import Glibc
import PipeSystem
import Testing

@Suite("The time in the queue for a processor")
struct ProcessorQueueTests {
  private let start = ContinuousClock.now

  private func thread(
    _ computed: Int, _ queued: Int, turns: Int = 1, runs: Bool
  ) -> ProcessorQueue.Thread {
    .init(computed: .seconds(computed), queued: .seconds(queued), turns: turns, isRunnable: runs)
  }

  @Test("what the system counts is told once, from the first sample on")
  func counted() {
    var queue = ProcessorQueue()
    #expect(queue.take([1: thread(5, 9, runs: false)], at: start) == .zero)
    #expect(
      queue.take([1: thread(6, 11, turns: 2, runs: false)], at: start + .seconds(10)) == .seconds(2)
    )
    #expect(
      queue.take([1: thread(6, 11, turns: 2, runs: false)], at: start + .seconds(20)) == .zero)
  }

  @Test("a wait that has not ended is told, and not told again when the system counts it")
  func underWay() {
    var queue = ProcessorQueue()
    #expect(queue.take([1: thread(5, 9, runs: true)], at: start) == .zero)
    #expect(queue.take([1: thread(5, 9, runs: true)], at: start + .seconds(3)) == .seconds(3))
    #expect(queue.take([1: thread(5, 9, runs: true)], at: start + .seconds(4)) == .seconds(1))
    // Five seconds in all, of which four are known.
    #expect(
      queue.take([1: thread(6, 14, turns: 2, runs: false)], at: start + .seconds(6)) == .seconds(1))
    #expect(
      queue.take([1: thread(6, 16, turns: 3, runs: false)], at: start + .seconds(8)) == .seconds(2))
  }

  @Test("a process that computes without end stands in no queue")
  func computing() {
    var queue = ProcessorQueue()
    #expect(queue.take([1: thread(0, 0, runs: true)], at: start) == .zero)
    #expect(queue.take([1: thread(7, 0, runs: true)], at: start + .seconds(7)) == .zero)
  }

  @Test("time that a thread slept is no wait, though it can run at each sample")
  func slept() {
    var queue = ProcessorQueue()
    #expect(queue.take([1: thread(0, 0, runs: true)], at: start) == .zero)
    #expect(queue.take([1: thread(0, 0, turns: 2, runs: true)], at: start + .seconds(7)) == .zero)
    #expect(queue.take([1: thread(0, 0, turns: 2, runs: false)], at: start + .seconds(8)) == .zero)
    #expect(queue.take([1: thread(0, 0, turns: 2, runs: true)], at: start + .seconds(9)) == .zero)
  }

  @Test("of several threads it is the one that stood there longest that counts, each time anew")
  func longest() {
    var queue = ProcessorQueue()
    #expect(
      queue.take([1: thread(5, 9, runs: false), 2: thread(1, 1, runs: true)], at: start) == .zero)
    // The first thread, which waits for the second one, stands in no queue.
    #expect(
      queue.take(
        [1: thread(5, 9, runs: false), 2: thread(1, 1, runs: true)], at: start + .seconds(3))
        == .seconds(3))
    #expect(
      queue.take(
        [1: thread(6, 11, turns: 2, runs: false), 2: thread(2, 5, turns: 2, runs: false)],
        at: start + .seconds(6)) == .seconds(2))
  }

  @Test("a thread counts from its beginning, and no more when it has gone")
  func comeAndGone() {
    var queue = ProcessorQueue()
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
    // Another one with a number that was in use before.
    #expect(
      queue.take(
        [1: thread(5, 9, runs: false), 2: thread(0, 1, runs: false)], at: start + .seconds(10))
        == .seconds(1))
  }

  @Test("the system counts for each thread of this process, and for none that is not there")
  func system() throws {
    let threads = ProcessorQueue.threads(of: getpid())
    #expect(threads.count > 1)
    #expect(threads.values.contains { $0.computed > .zero && $0.turns > 0 && $0.isRunnable })
    #expect(ProcessorQueue.threads(of: .max).isEmpty)
  }
}
