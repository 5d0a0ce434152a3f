import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

// A sender whose pipe has no receiver, and a machine with an unread iterator of its states, in process.

private enum Doors: DSLCompatible, Equatable { case opened(Int) }
private enum Opened: DSLCompatible { case again }
private enum Count: DSLCompatible, Equatable { case counted(Int) }

private let doors = StateMachine<Doors, Opened, Never>(initial: .opened(0)) {
  When(state: Doors.opened) { count in
    On(event: .again) { Transition(to: .opened(count + 1)) }
  }
}

private let doorsThatTake = StateMachine<Doors, Count, Never>(initial: .opened(0)) { doors, _ in
  .next(doors)
}

@Suite("Pipes without receivers, and unread iterators", .stallLimit(.seconds(60)))
struct ReceiverTests {
  private let warningStream = AsyncStream.makeStream(of: String.self)

  /// Creates a value whose warnings are appended to the stream of this test.
  private func telling<Made>(_ make: () -> Made) -> Made {
    Warnings.$tell.withValue(
      { [continuation = warningStream.continuation] in continuation.yield($0) }, operation: make)
  }

  private func sender(into pipe: EventPipe<Count>) -> AsyncStateMachineSequence<
    Doors, Opened, Never
  > {
    AsyncStateMachineSequence(
      stateMachine: doors,
      runtime: Runtime().connectAsSender(to: pipe, when: Doors.opened, send: Count.counted))
  }

  @Test("A sender whose pipe has no receiver continues, and a new receiver gets the last events")
  func noReceiver() async {
    let pipe = telling { EventPipe<Count>() }
    let sequence = sender(into: pipe)
    for number in 1...3_000 {
      #expect(await sequence.send(.again) == .accepted(.opened(number)))
    }
    // The entry into the initial state has sent one event, too.
    #expect(pipe.discarded == UInt64(3_001 - pipe.capacity))
    let taken = AsyncStream.makeStream(of: Count.self)
    let receiver = AsyncStateMachineSequence(
      stateMachine: doorsThatTake,
      runtime: Runtime().connectAsReceiver(to: pipe)
        .register(middleware: { (event: Count) in taken.continuation.yield(event) }))
    var events: [Count] = []
    for await event in taken.stream {
      events.append(event)
      if event == .counted(3_000) { break }
    }
    receiver.finish()
    #expect(events == (3_001 - pipe.capacity...3_000).map(Count.counted))
    warningStream.continuation.finish()
    var warnings: [String] = []
    for await warning in warningStream.stream { warnings.append(warning) }
    #expect(warnings.count == 1)
    #expect(warnings.first?.contains("has no receiver") == true)
  }

  @Test("A sender that waits for its receiver continues when the receiver finishes")
  func finishedReceiver() async {
    let pipe = telling { EventPipe<Count>(capacity: 4) }
    let sequence = sender(into: pipe)
    // The receiver accepts its first event and never finishes the step.
    let stuck = StateMachine<Count, Count, Never>(initial: .counted(-1)) {
      When(state: Count.counted) { _ in
        On(event: Count.counted) { (number: Int) async in
          for await _ in AsyncStream<Void>.makeStream().stream {}
          return Transition(to: .counted(number))
        }
      }
    }
    let receiver = AsyncStateMachineSequence(
      stateMachine: stuck, runtime: Runtime().connectAsReceiver(to: pipe))
    let sending = Task {
      for _ in 1...2_000 { await sequence.send(.again) }
      return sequence.state
    }
    // The sender waits for the receiver, which is processing one event and has four in its queue.
    await yieldUntil(sequence.state == .opened(4))
    receiver.finish()
    #expect(await sending.value == .opened(2_000))
    #expect(pipe.discarded > 0)
  }

  @Test(
    "A machine that waits for an unread iterator warns, and continues when the iterator is read"
  )
  func heldIterator() async {
    await withManualClock { clock in
      let sequence = telling { AsyncStateMachineSequence(stateMachine: doors) }
      let held = sequence.makeAsyncIterator()
      let count = 2 * AsyncStateMachineSequence<Doors, Opened, Never>.bufferCapacity
      let sending = Task {
        for _ in 0..<count { await sequence.send(.again) }
      }
      await clock.waitForSleepers()
      await clock.advance(by: .seconds(1))
      for await warning in warningStream.stream {
        #expect(
          warning
            == "a machine with states Doors waits for an iterator of its states that has not been read "
            + "for 1 s; read the iterator, or release it")
        break
      }
      for number in 0...count { #expect(await held.next() == .opened(number)) }
      await sending.value
    }
  }

  @Test("A slow iterator causes no warning while it is read")
  func slowIterator() async {
    await withManualClock { clock in
      let sequence = telling { AsyncStateMachineSequence(stateMachine: doors) }
      let slow = sequence.makeAsyncIterator()
      let sending = Task {
        for _ in 0..<3_000 { await sequence.send(.again) }
      }
      for _ in 0..<5 {
        await clock.waitForSleepers()
        _ = await slow.next()
        await clock.advance(by: .seconds(1))
      }
      sequence.finish()
      await sending.value
      warningStream.continuation.finish()
      for await warning in warningStream.stream { Issue.record("\(warning)") }
    }
  }
}
