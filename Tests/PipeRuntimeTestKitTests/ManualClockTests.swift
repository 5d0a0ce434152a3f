import PipeRuntime
import TestTraits
import Testing

import PipeRuntimeTestKit

@Suite("The manual clock", .stallLimit(.seconds(60)))
struct ManualClockTests {
  private final class Log: Sendable {
    let entries = Locked<[String]>([])
    func add(_ entry: String) { entries.withLock { $0.append(entry) } }
    var all: [String] { entries.withLock { $0 } }
  }

  @Test("The manual clock wakes sleepers in the order of their deadlines, at their own times")
  func order() async {
    let clock = ManualClock()
    let log = Log()
    let tasks = [3, 1, 2].map { seconds in
      Task {
        try await clock.sleep(for: .seconds(seconds))
        log.add("\(seconds) at \(clock.now)")
      }
    }
    await clock.waitForSleepers(3)
    #expect(clock.sleepers.map(\.offset) == [.seconds(1), .seconds(2), .seconds(3)])
    await clock.advance(by: .seconds(2))
    #expect(log.all == ["1 at 1.0 seconds", "2 at 2.0 seconds"])
    #expect(clock.now.offset == .seconds(2))
    await clock.advance(by: .seconds(10))
    #expect(log.all == ["1 at 1.0 seconds", "2 at 2.0 seconds", "3 at 3.0 seconds"])
    #expect(clock.now.offset == .seconds(12))
    for task in tasks { _ = await task.result }
  }

  @Test("The manual clock wakes sleepers with the same deadline in the order in which they began")
  func ties() async {
    let clock = ManualClock()
    let log = Log()
    var tasks: [Task<Void, any Error>] = []
    for number in 1...5 {
      tasks.append(
        Task {
          try await clock.sleep(for: .seconds(1))
          log.add("\(number)")
        })
      await clock.waitForSleepers(number)
    }
    await clock.advance(by: .seconds(1))
    #expect(log.all == ["1", "2", "3", "4", "5"])
    for task in tasks { _ = await task.result }
  }

  @Test("A repeating timer ticks at the right times within one advance")
  func repeats() async {
    let clock = ManualClock()
    let log = Log()
    let timer = Task {
      while true {
        try await clock.sleep(for: .seconds(2))
        log.add("\(clock.now)")
      }
    }
    await clock.waitForSleepers()
    await clock.advance(by: .seconds(7))
    #expect(log.all == ["2.0 seconds", "4.0 seconds", "6.0 seconds"])
    #expect(await clock.advanceToNextDeadline())
    #expect(log.all.last == "8.0 seconds")
    timer.cancel()
    await #expect(throws: CancellationError.self) { try await timer.value }
    #expect(clock.sleepers.isEmpty)
    #expect(await !clock.advanceToNextDeadline())
  }

  @Test("A sleep until a past deadline returns at once, and a cancelled task does not sleep")
  func past() async throws {
    let clock = ManualClock()
    await clock.advance(by: .seconds(5))
    try await clock.sleep(until: ManualClock.Instant(offset: .seconds(5)))
    let task = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      try await clock.sleep(for: .seconds(1))
    }
    await #expect(throws: CancellationError.self) { try await task.value }
  }

  @Test("The manual clock runs until no task sleeps, and fails if a task sleeps again and again")
  func idle() async {
    let clock = ManualClock()
    let chain = Task { for _ in 0..<3 { try await clock.sleep(for: .seconds(60)) } }
    await clock.waitForSleepers()
    await clock.runUntilIdle()
    #expect(clock.now.offset == .seconds(180))
    _ = await chain.result

    let timer = Task { while true { try await clock.sleep(for: .seconds(1)) } }
    await clock.waitForSleepers()
    let failures = await FailureReporter.capture { await clock.runUntilIdle(limit: 3) }
    #expect(
      failures == [
        """
        the clock is not idle after it woke 3 sleepers: a task sleeps until 184.0 seconds
          Use advance(by:) where a timer always starts again, or pass a higher 'limit:'.
        """
      ])
    timer.cancel()
  }

  @Test("A wait for sleeping tasks fails if no task sleeps")
  func nobody() async {
    let clock = ManualClock()
    let failures = await FailureReporter.capture {
      await clock.waitForSleepers(within: .milliseconds(1))
    }
    #expect(
      failures.map(withoutStall) == [
        """
        0 of 1 tasks sleep on the clock after 1 ms
          Check that the effect is executed, and that it sleeps on this clock.
        """
      ])
  }

  @Test("Effects of machines made under a manual clock use that clock, even after several steps")
  func effects() async {
    let runtime = Runtime<State, Event, Output>()
      .map(
        output: Output.close(speed:),
        to: { speed in
          try? await EffectClock.sleep(for: .seconds(10) / speed)
          return Event.doorHasLocked
        })
    await withManualClock { clock in
      let doors = (0..<3).map { _ in
        AsyncStateMachineSequence(stateMachine: makeElevator(), runtime: runtime)
      }
      let recorders = doors.map { StateRecorder($0) }
      for (number, door) in doors.enumerated() {
        await door.send(.personsHaveEntered(persons: number * 4))
        await door.send(.closeButtonWasPressed)
      }
      await clock.waitForSleepers(3)
      #expect(clock.sleepers.map(\.offset) == [.seconds(5), .seconds(5), .seconds(10)])
      await clock.advance(by: .milliseconds(4999))
      #expect(recorders.map(\.states.count) == [3, 3, 3])
      await clock.advance(by: .milliseconds(1))
      await recorders[0].wait(until: .closed)
      await recorders[1].wait(until: .closed)
      await clock.runUntilIdle()
      await recorders[2].wait(until: .closed)
      #expect(clock.now.offset == .seconds(10))
    }
  }
}
