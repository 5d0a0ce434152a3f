import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

// A sender whose pipe nobody receives from, and a machine whose states nobody reads, in process.

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

@Suite("Pipes that nobody receives from, and states that nobody reads", .stallLimit(.seconds(60)))
struct ReceiverTests {
  private let told = AsyncStream.makeStream(of: String.self)

  /// Makes what tells its warnings here.
  private func telling<Made>(_ make: () -> Made) -> Made {
    Warnings.$tell.withValue(
      { [continuation = told.continuation] in continuation.yield($0) }, operation: make)
  }

  private func sender(into pipe: EventPipe<Count>) -> AsyncStateMachineSequence<
    Doors, Opened, Never
  > {
    AsyncStateMachineSequence(
      stateMachine: doors,
      runtime: Runtime().connectAsSender(to: pipe, when: Doors.opened, send: Count.counted))
  }

  @Test("a sender whose pipe has no receiver goes on; one that comes gets the last events")
  func noReceiver() async {
    let pipe = telling { EventPipe<Count>() }
    let sequence = sender(into: pipe)
    for number in 1...3_000 {
      #expect(await sequence.send(.again) == .moved(.opened(number)))
    }
    // The initial state was entered, too.
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
    told.continuation.finish()
    var warnings: [String] = []
    for await warning in told.stream { warnings.append(warning) }
    #expect(warnings.count == 1)
    #expect(warnings.first?.contains("has no receiver") == true)
  }

  @Test("a sender whose receiver has finished goes on, also one that waits for it")
  func finishedReceiver() async {
    let pipe = telling { EventPipe<Count>(capacity: 4) }
    let sequence = sender(into: pipe)
    // Takes its first event and waits for ever.
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
    // It waits for the receiver, which has one event in its hands and four before it.
    await yieldUntil(sequence.state == .opened(4))
    receiver.finish()
    #expect(await sending.value == .opened(2_000))
    #expect(pipe.discarded > 0)
  }

  @Test(
    "a machine that waits for an iterator that is held and not read says so, and goes on when it is"
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
      for await warning in told.stream {
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

  @Test("a slow iterator is not told of, as long as it is read")
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
      told.continuation.finish()
      for await warning in told.stream { Issue.record("\(warning)") }
    }
  }
}
