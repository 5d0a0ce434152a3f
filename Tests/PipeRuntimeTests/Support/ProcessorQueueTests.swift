import Glibc
import PipeRuntime
import PipeSystem
import Testing

@Suite("The time in the queue for a processor")
struct ProcessorQueueTests {
  private let start = ContinuousClock.now

  private func sample(_ computed: Int, _ queued: Int, runs: Bool) -> ProcessorQueue.Sample {
    .init(computed: .seconds(computed), queued: .seconds(queued), isRunnable: runs)
  }

  @Test("what the system counts is told once, from the first sample on")
  func counted() {
    var queue = ProcessorQueue()
    #expect(queue.take(sample(5, 9, runs: false), at: start) == .zero)
    #expect(queue.take(sample(6, 11, runs: false), at: start + .seconds(10)) == .seconds(2))
    #expect(queue.take(sample(6, 11, runs: false), at: start + .seconds(20)) == .zero)
  }

  @Test("a wait that has not ended is told, and not told again when the system counts it")
  func underWay() {
    var queue = ProcessorQueue()
    #expect(queue.take(sample(5, 9, runs: false), at: start) == .zero)
    #expect(queue.take(sample(5, 9, runs: true), at: start + .seconds(3)) == .seconds(3))
    #expect(queue.take(sample(5, 9, runs: true), at: start + .seconds(4)) == .seconds(1))
    // Five seconds in all, of which four are known.
    #expect(queue.take(sample(6, 14, runs: false), at: start + .seconds(6)) == .seconds(1))
    #expect(queue.take(sample(6, 16, runs: false), at: start + .seconds(8)) == .seconds(2))
  }

  @Test("a process that computes without end stands in no queue")
  func computing() {
    var queue = ProcessorQueue()
    #expect(queue.take(sample(0, 0, runs: true), at: start) == .zero)
    #expect(queue.take(sample(7, 0, runs: true), at: start + .seconds(7)) == .zero)
  }

  @Test("the system counts for this process, and for none that is not there")
  func system() throws {
    let own = try #require(ProcessorQueue.Sample(of: getpid()))
    #expect(own.computed > .zero && own.queued >= .zero)
    #expect(ProcessorQueue.Sample(of: .max) == nil)
  }
}
