import PipeMachines
import TestTraits
import Testing

/// A list that is loaded page by page, with a struct as its state.
private struct Pages: DSLCompatible, Equatable {
  var loaded: [Int] = []
  var next: Int?
  var isWatched = false
}

private enum Turn: DSLCompatible, Equatable {
  case fetch(Int), came(Int), cancel, watch, tick, spin
}

private func machine() -> StateMachine<Pages, Turn, Never> {
  StateMachine(initial: Pages()) { state, event in
    var state = state
    switch event {
    case .fetch(let page): state.next = page
    case .came(let page):
      guard state.next == page else { return .refused(.guard) }
      state.loaded.append(page)
      state.next = nil
    case .cancel: state.next = nil
    case .watch: state.isWatched.toggle()
    case .tick: state.loaded.append(0)
    case .spin: state.next = (state.next ?? 0) + 1
    }
    return .next(state)
  }
}

private typealias Run = AsyncStateMachineSequence<Pages, Turn, Never>

extension Run {
  fileprivate func first(where isWanted: (Pages) -> Bool) async -> Pages? {
    for await state in self where isWanted(state) { return state }
    return nil
  }
}

@Suite("Feedbacks of a machine")
struct FeedbackTests {
  @Test(
    "A feedback starts work for a part of the state, and the machine processes the work's event")
  func starts() async {
    let runtime = Runtime<Pages, Turn, Never>()
      .feedback(Feedback(lensing: \.next) { page in Turn.came(page) })
    let run = Run(stateMachine: machine(), runtime: runtime)
    await run.send(.fetch(1))
    #expect(await run.first { $0.loaded == [1] }?.next == nil)
    await run.send(.fetch(2))
    #expect(await run.first { $0.loaded == [1, 2] } != nil)
  }

  @Test("A feedback's work is cancelled only when its part of the state changes or disappears")
  func stops() async {
    let (started, starts) = AsyncStream.makeStream(of: Int.self)
    let (cancelled, cancels) = AsyncStream.makeStream(of: Int.self)
    let runtime = Runtime<Pages, Turn, Never>()
      .feedback(
        Feedback(lensing: \.next) { page -> Turn? in
          starts.yield(page)
          do { try await Task.sleep(for: .seconds(600)) } catch { cancels.yield(page) }
          return nil
        })
    let run = Run(stateMachine: machine(), runtime: runtime)
    var began = started.makeAsyncIterator()
    var ended = cancelled.makeAsyncIterator()
    await run.send(.fetch(1))
    #expect(await began.next() == 1)
    await run.send(.watch)
    await run.send(.fetch(1))
    await run.send(.fetch(2))
    #expect(await began.next() == 2)
    #expect(await ended.next() == 1)
    await run.send(.cancel)
    #expect(await ended.next() == 2)
    await run.send(.fetch(3))
    #expect(await began.next() == 3)
    run.finish()
    #expect(await ended.next() == 3)
  }

  @Test("A feedback with many events continues while its part of the state exists")
  func many() async {
    let runtime = Runtime<Pages, Turn, Never>()
      .feedback(
        Feedback(lensing: { $0.isWatched ? true : nil }) { _ in
          AsyncStream { ticks in
            for _ in 0..<3 { ticks.yield(Turn.tick) }
            ticks.finish()
          }
        })
    let run = Run(stateMachine: machine(), runtime: runtime)
    await run.send(.watch)
    #expect(await run.first { $0.loaded == [0, 0, 0] } != nil)
  }

  @Test("Feedbacks run side by side with each other and with an output's effect")
  func several() async {
    let runtime = Runtime<Pages, Turn, Never>()
      .feedback(Feedback(lensing: \.next) { page in Turn.came(page) })
      .feedback(Feedback(when: \.isWatched) { _ in Turn.tick })
    let run = Run(stateMachine: machine(), runtime: runtime)
    await run.send(.watch)
    await run.send(.fetch(7))
    #expect(await run.first { $0.loaded.sorted() == [0, 7] } != nil)
  }

  @Test("A feedback that restarts itself endlessly is paused until the next event from outside")
  func bounded() async {
    let (inputs, input) = AsyncStream.makeStream(of: Engine<Pages, Turn, Never>.Input.self)
    let engine = Engine(
      machine: machine(),
      runtime: Runtime().feedback(Feedback(lensing: \.next) { _ in Turn.spin }),
      post: { input.yield($0) })
    engine.start()
    engine.take(.spin, cause: "test")
    for await next in inputs {
      engine.process(next)
      // The feedback is held back: no effect runs.
      if engine.runningEffectCount == 0 { break }
    }
    #expect(engine.version >= UInt64(Feedback<Pages, Turn>.startLimit))
    engine.take(.watch, cause: "test")
    #expect(engine.runningEffectCount == 1)
    // The feedback is held back again, and ends when its part of the state disappears.
    for await next in inputs {
      engine.process(next)
      if engine.runningEffectCount == 0 { break }
    }
    engine.take(.cancel, cause: "test")
    #expect(engine.runningEffectCount == 0)
    engine.take(.watch, cause: "test")
    #expect(engine.runningEffectCount == 0)
    engine.take(.spin, cause: "test")
    #expect(engine.runningEffectCount == 1)
  }
}

@Suite("Feedbacks of machines with asynchronous transitions", .stallLimit(.seconds(60)))
struct SlowFeedbackTests {
  @Test("A feedback that restarts itself endlessly by asynchronous transitions is paused")
  func bounded() async {
    let slow = StateMachine<Pages, Turn, Never>(initial: Pages()) { state, event in
      guard case .next(let next) = machine().reduce(state, event) else {
        return .refused(.noTransition)
      }
      return .suspended { next }
    }
    let (inputs, input) = AsyncStream.makeStream(of: Engine<Pages, Turn, Never>.Input.self)
    let engine = Engine(
      machine: slow,
      runtime: Runtime().feedback(Feedback(lensing: \.next) { _ in Turn.spin }),
      post: { input.yield($0) })
    engine.start()
    engine.take(.spin, cause: "test")
    for await next in inputs {
      engine.process(next)
      // The feedback is held back: the machine is idle, and no effect runs.
      if !engine.isInTransition, engine.runningEffectCount == 0 { break }
    }
    #expect(engine.version >= UInt64(Feedback<Pages, Turn>.startLimit))
  }
}

@Suite("Machines that are a function")
struct FunctionMachineTests {
  @Test("A machine that is a function behaves like the same machine written with 'When' and 'On'")
  func steps() async {
    #expect(machine().reduce(Pages(), .came(1)) == .refused(.guard))
    #expect(machine().reduce(Pages(), .fetch(3)) == .next(Pages(next: 3)))
    let run = Run(stateMachine: machine())
    #expect(await run.send(.came(1)) == .refused(.guard))
    #expect(await run.send(.fetch(3)) == .accepted(Pages(next: 3)))
  }

  @Test(
    "A machine that is a function has every event in its alphabet, and its outputs start effects")
  func outputs() async {
    enum Ask: DSLCompatible { case load(Int) }
    let machine = StateMachine<Pages, Turn, Ask>(
      initial: Pages(), reduce: machine().reduce, output: { $0.next.map(Ask.load) })
    #expect(
      machine.alphabet
        == ["fetch", "came", "cancel", "watch", "tick", "spin"].sorted {
          machine.events.map(\.name).firstIndex(of: $0)! < machine.events.map(\.name).firstIndex(
            of: $1)!
        })
    #expect(machine.output(Pages(next: 4)) != nil)
    let run = AsyncStateMachineSequence(
      stateMachine: machine,
      runtime: Runtime().map(output: Ask.load, to: { page in Turn.came(page) }))
    await run.send(.fetch(4))
    for await state in run where state.loaded == [4] { break }
    #expect(run.state.loaded == [4])
  }
}
