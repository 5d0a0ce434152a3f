import PipeRuntime

/// Measures steps of the elevator's door in this process, without a node.
struct ReduceSection {
  private let setting: Setting

  init(_ setting: Setting) { self.setting = setting }

  func run(_ report: inout Report) {
    let steps = setting.pick(3_000_000, quick: 300_000)
    let sends = setting.pick(300_000, quick: 30_000)
    let repeats = setting.pick(7, quick: 3)
    var reduced = Samples()
    var switched = Samples()
    var sent = Samples()
    var streamed = Samples()
    for _ in 0..<repeats {
      switched.add(Self.rate(steps) { Self.plainSwitch(steps: steps) })
      reduced.add(Self.rate(steps) { Self.reduce(steps: steps) })
      streamed.add(Self.rate(sends) { Blocking.run { await Self.stream(count: sends) } })
      sent.add(Self.rate(sends) { Blocking.run { await Self.sequence(count: sends) } })
    }
    report.add(
      Figure(
        name: "reduce; baseline: a plain switch", value: .perSecond(reduced.median),
        baseline: .perSecond(switched.median), target: .atLeast(.perSecond(3_000_000))))
    report.add(
      Figure(
        name: "AsyncStateMachineSequence; AsyncStream", value: .perSecond(sent.median),
        baseline: .perSecond(streamed.median), target: .atLeast(.perSecond(1_000_000))))
    report.note(
      "one of four steps is refused; a reader takes every state; each send awaits its step,")
    report.note("the baseline's events go through one AsyncStream and its states through another")
  }

  private static func rate(_ count: Int, _ body: () -> Void) -> Double {
    let start = Clock.nanoseconds
    body()
    return Double(count) / (Double(Clock.nanoseconds - start) / 1e9)
  }

  static let events: [Door.Event] = [
    .personsHaveEntered(persons: 3), .doorHasLocked, .closeButtonWasPressed, .doorHasLocked,
  ]

  static func reduce(steps: Int) {
    let machine = Door.machine()
    var state = machine.initial
    for step in 0..<steps {
      if step & 3 == 0 { state = machine.initial }
      if case .next(let next) = machine.reduce(state, events[step & 3]) { state = next }
    }
    blackHole(state)
  }

  private static func plainSwitch(steps: Int) {
    var state = Door.State.open(persons: 0)
    for step in 0..<steps {
      if step & 3 == 0 { state = .open(persons: 0) }
      if let next = Door.next(state, events[step & 3]) { state = next }
    }
    blackHole(state)
  }

  static func sequence(count: Int) async {
    let sequence = AsyncStateMachineSequence(stateMachine: Door.machine(reopens: true))
    let reader = Task {
      for await state in sequence { blackHole(state) }
    }
    for index in 0..<count { await sequence.send(events[index & 3]) }
    sequence.finish()
    await reader.value
  }

  private static func stream(count: Int) async {
    let machine = Door.machine(reopens: true)
    let (inputs, input) = AsyncStream<Door.Event>.makeStream()
    let (states, output) = AsyncStream<Door.State>.makeStream()
    let reader = Task {
      for await state in states { blackHole(state) }
    }
    let runner = Task {
      var state = machine.initial
      output.yield(state)
      for await event in inputs {
        guard case .next(let next) = machine.reduce(state, event) else { continue }
        state = next
        output.yield(state)
      }
      output.finish()
    }
    for index in 0..<count { input.yield(events[index & 3]) }
    input.finish()
    await runner.value
    await reader.value
  }
}

/// Consumes a value, so that the compiler cannot remove the computation of the value.
@inline(never)
func blackHole<Value>(_ value: Value) {}
