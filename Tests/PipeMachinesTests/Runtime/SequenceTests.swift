import PipeMachines
import Synchronization
import TestTraits
import Testing

private enum Tally: DSLCompatible, Equatable { case at(Int), slow(Int) }
private enum Add: DSLCompatible { case one, many(Int), slowly, odd, never }
private enum Ask: DSLCompatible { case more(String, Int) }

private func tally() -> StateMachine<Tally, Add, Ask> {
  StateMachine(initial: .at(0)) {
    When(state: Tally.at) { count in
      On(event: .one) { Transition(to: .at(count + 1)) }
      On(event: Add.many) { number in Transition(to: .at(count + number)) }
      On(event: .odd) {
        Guard(predicate: count % 2 == 1)
      } transition: {
        Transition(to: .at(count))
      }
      On(event: .slowly) {
        await Task.yield()
        return Transition(to: .slow(count))
      }
    }
    When(state: Tally.slow) { count in
      Execute(output: .more("slow", count))
    } transitions: { count in
      On(event: .one) { Transition(to: .at(count + 1)) }
    }
  }
}

@Suite("A machine as a sequence of its states")
struct SequenceTests {
  @Test("The first reader gets the initial state and every step taken before the reader subscribed")
  func wholeRun() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    for _ in 0..<10 { await sequence.send(.one) }
    sequence.finish()
    var seen: [Tally] = []
    for await state in sequence { seen.append(state) }
    #expect(seen == (0...10).map { .at($0) })
    #expect(sequence.state == .at(10))
  }

  @Test("'send' returns the outcome of the event")
  func outcomes() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    #expect(await sequence.send(.many(4)) == .accepted(.at(4)))
    #expect(await sequence.send(.odd) == .refused(.guard))
    #expect(await sequence.send(.never) == .refused(.noTransition))
    #expect(await sequence.send(.slowly) == .accepted(.slow(4)))
    #expect(await sequence.send(.one) == .accepted(.at(5)))
    sequence.finish()
    #expect(await sequence.send(.one) == .finished)
    #expect(sequence.state == .at(5))
  }

  @Test("Several readers share one run, and a later reader begins with the current state")
  func readers() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    let first = sequence.makeAsyncIterator()
    await sequence.send(.one)
    let second = sequence.makeAsyncIterator()
    await sequence.send(.one)
    sequence.finish()
    func all(_ iterator: AsyncStateMachineSequence<Tally, Add, Ask>.Iterator) async -> [Tally] {
      var states: [Tally] = []
      while let state = await iterator.next() { states.append(state) }
      return states
    }
    #expect(await all(first) == [.at(0), .at(1), .at(2)])
    #expect(await all(second) == [.at(1), .at(2)])
  }

  @Test("A machine processes each event once if many tasks send events")
  func crowd() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 {
        group.addTask { for _ in 0..<200 { await sequence.send(.one) } }
      }
    }
    #expect(sequence.state == .at(1600))
  }

  @Test("A slow reader delays the machine instead of missing states")
  func slowReader() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    let capacity = AsyncStateMachineSequence<Tally, Add, Ask>.bufferCapacity
    let reader = sequence.makeAsyncIterator()
    let sender = Task { for _ in 0..<(3 * capacity) { await sequence.send(.one) } }
    var expected = 0
    while expected <= 3 * capacity {
      guard await reader.next() == .at(expected) else {
        Issue.record("state \(expected) is missing")
        return
      }
      expected += 1
      if case .at(let count) = sequence.state { #expect(count <= expected + capacity) }
    }
    await sender.value
  }

  @Test("A slow reader also delays the events of effects")
  func slowReaderOfEffects() async {
    let capacity = AsyncStateMachineSequence<Tally, Add, Ask>.bufferCapacity
    let runtime = Runtime<Tally, Add, Ask>()
      .map(
        output: Ask.more,
        to: { (_: String, _: Int) in
          let left = Mutex(3 * capacity)
          return AsyncStream<Add> {
            let isLeft = left.withLock {
              $0 -= 1
              return $0 >= 0
            }
            return isLeft ? .one : nil
          }
        })
    let sequence = AsyncStateMachineSequence(stateMachine: tally(), runtime: runtime)
    let reader = sequence.makeAsyncIterator()
    await sequence.send(.slowly)
    #expect(await reader.next() == .at(0))
    #expect(await reader.next() == .slow(0))
    for expected in 1...(3 * capacity) {
      #expect(await reader.next() == .at(expected))
      if case .at(let count) = sequence.state { #expect(count <= expected + capacity) }
    }
  }

  @Test("A reader stops delaying the machine when the reader ends")
  func goneReader() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    let capacity = AsyncStateMachineSequence<Tally, Add, Ask>.bufferCapacity
    do {
      let reader = sequence.makeAsyncIterator()
      for _ in 0..<(capacity - 1) { await sequence.send(.one) }
      _ = reader
    }
    for _ in 0..<10 { await sequence.send(.one) }
    #expect(sequence.state == .at(capacity + 9))
  }

  @Test("Effects receive all associated values, and are cancelled when the run ends")
  func effects() async {
    let calls = AsyncStream.makeStream(of: String.self)
    let runtime = Runtime<Tally, Add, Ask>()
      .map(
        output: Ask.more,
        to: { (word: String, count: Int) async -> Add? in
          calls.continuation.yield("\(word) \(count)")
          for await _ in AsyncStream<Void>.makeStream().stream {}
          calls.continuation.yield(Task.isCancelled ? "cancelled" : "ended")
          return nil
        })
    var log = calls.stream.makeAsyncIterator()
    do {
      let sequence = AsyncStateMachineSequence(stateMachine: tally(), runtime: runtime)
      await sequence.send(.slowly)
      #expect(await log.next() == "slow 0")
    }
    // The sequence is released, and with it the run.
    #expect(await log.next() == "cancelled")
  }

  @Test("A machine processes the events of each task in that task's order")
  func order() async {
    enum Log: DSLCompatible, Equatable { case last(sender: Int, number: Int) }
    enum Entry: DSLCompatible { case add(sender: Int, number: Int) }
    let machine = StateMachine<Log, Entry, Never>(initial: .last(sender: -1, number: 0)) {
      When(state: Log.last) { _, _ in
        On(event: Entry.add) { sender, number in
          if number % 7 == 0 { await Task.yield() }
          return Transition(to: .last(sender: sender, number: number))
        }
      }
    }
    let sequence = AsyncStateMachineSequence(stateMachine: machine)
    let reader = Task {
      var numbers = Array(repeating: 0, count: 4)
      for await case .last(let sender, let number) in sequence where sender >= 0 {
        #expect(number == numbers[sender] + 1)
        numbers[sender] = number
      }
      return numbers
    }
    await withTaskGroup(of: Void.self) { group in
      for sender in 0..<4 {
        group.addTask {
          for number in 1...500 { await sequence.send(.add(sender: sender, number: number)) }
        }
      }
    }
    sequence.finish()
    #expect(await reader.value == [500, 500, 500, 500])
  }

  @Test("Several readers of a busy machine all see the same run")
  func crowdOfReaders() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    let started = AsyncStream.makeStream(of: Void.self)
    let count = 5_000
    let readers = (0..<4).map { _ in
      Task {
        var states: [Tally] = []
        for await state in sequence {
          if states.isEmpty { started.continuation.yield() }
          states.append(state)
        }
        return states
      }
    }
    var waiting = started.stream.makeAsyncIterator()
    for _ in readers { await waiting.next() }
    for _ in 0..<count { await sequence.send(.one) }
    sequence.finish()
    for reader in readers { #expect(await reader.value == (0...count).map { .at($0) }) }
  }

  @Test("A finished run leaves no task, state or closure behind")
  func leavesNothing() async {
    final class Token: Sendable {}
    weak var weakToken: Token?
    let ended = AsyncStream.makeStream(of: Void.self)
    do {
      let token = Token()
      weakToken = token
      let pipe = EventPipe<Add>()
      let runtime = Runtime<Tally, Add, Ask>()
        .map(
          output: Ask.more,
          to: { (_: String, _: Int) async -> Add? in
            for await _ in AsyncStream<Void>.makeStream().stream {}
            _ = token
            ended.continuation.yield()
            return .one
          }
        )
        .register(middleware: { (_: Tally) in _ = token })
        .register(middleware: { (_: Add) async in _ = token })
        .connectAsReceiver(to: pipe)
        .connectAsSender(to: pipe, when: Tally.slow, send: Add.odd)
      let sequence = AsyncStateMachineSequence(stateMachine: tally(), runtime: runtime)
      let reader = Task { for await _ in sequence {} }
      await sequence.send(.slowly)
      sequence.finish()
      await reader.value
    }
    for await _ in ended.stream { break }
    await yieldUntil(weakToken == nil)
  }

  @Test("A 'send' call that is waiting when the run ends gets a reply")
  func finishedWhileWaiting() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    let reader = sequence.makeAsyncIterator()
    let capacity = AsyncStateMachineSequence<Tally, Add, Ask>.bufferCapacity
    let sender = Task {
      var outcome = SendOutcome<Tally>.finished
      for _ in 0..<capacity { outcome = await sequence.send(.one) }
      return outcome
    }
    await yieldUntil(sequence.state == .at(capacity - 1))
    sequence.finish()
    #expect(await sender.value == .finished)
    #expect(await reader.next() == .at(0))
  }

  @Test("'send' on the main actor stays on the main actor")
  @MainActor
  func staysOnActor() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    var isRemote = false
    Task { isRemote = true }
    // An idle machine processes events without a suspension, so no other task runs here in between.
    for _ in 0..<10 { await sequence.send(.one) }
    #expect(!isRemote)
    #expect(sequence.state == .at(10))
  }

  @Test("Cancelling the task of the only reader ends the run")
  func cancellation() async {
    let sequence = AsyncStateMachineSequence(stateMachine: tally())
    let started = AsyncStream.makeStream(of: Void.self)
    let reader = Task {
      for await _ in sequence { started.continuation.yield() }
      started.continuation.finish()
    }
    for await _ in started.stream { reader.cancel() }
    await reader.value
    #expect(await sequence.send(.one) == .finished)
  }

  @Test("Asynchronous middleware is called in the order of the steps")
  func middleware() async {
    let log = AsyncStream.makeStream(of: String.self)
    let runtime = Runtime<Tally, Add, Ask>()
      .register(middleware: { (event: Add) async in
        await Task.yield()
        log.continuation.yield("\(event)")
      })
      .register(middleware: { (state: Tally) async in
        await Task.yield()
        log.continuation.yield("\(state)")
      })
    let sequence = AsyncStateMachineSequence(stateMachine: tally(), runtime: runtime)
    for _ in 0..<3 { await sequence.send(.one) }
    var seen: [String] = []
    for await line in log.stream {
      seen.append(line)
      if seen.count == 7 { break }
    }
    #expect(seen == ["at(0)", "one", "at(1)", "one", "at(2)", "one", "at(3)"])
  }

  @Test("A chain of machines forwards every event in order, through pipes with a capacity of one")
  func chain() async {
    let pipes = (0..<5).map { _ in EventPipe<Add>(capacity: 1) }
    let chain = pipes.indices.map { index in
      let runtime = Runtime<Tally, Add, Ask>().connectAsReceiver(to: pipes[index])
      let next = index + 1
      return AsyncStateMachineSequence(
        stateMachine: tally(),
        runtime: next == pipes.count
          ? runtime : runtime.connectAsSender(to: pipes[next], when: Tally.at, send: Add.many))
    }
    let head = AsyncStateMachineSequence(
      stateMachine: tally(),
      runtime: Runtime().connectAsSender(to: pipes[0], when: Tally.at, send: Add.one))
    for _ in 0..<100 { await head.send(.one) }
    // Each machine adds up the sums of the machine before it: the k-th sum of 101 ones.
    var sums = Array(1...101)
    for _ in 1..<pipes.count { sums = sums.reduce(into: []) { $0.append(($0.last ?? 0) &+ $1) } }
    for await state in chain[pipes.count - 1] where state == .at(sums.last!) { break }
    #expect(chain[0].state == .at(101))
  }
}
