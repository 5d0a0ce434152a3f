import Observation
import PipeMachines
import PipeRuntimeTestKit
import TestTraits
import Testing

private enum Lamp: DSLCompatible, Equatable {
  case off, on(Int), broken
  var level: Int { if case .on(let level) = self { level } else { 0 } }
}
private enum Press: DSLCompatible, Equatable { case dim(Int), off, blow, fix }
private enum Wire: DSLCompatible { case heat }

private func lamp() -> StateMachine<Lamp, Press, Wire> {
  StateMachine(initial: .off) {
    When(
      states: OneOf {
        Lamp.off; Lamp.on
      }
    ) { state in
      if case .on(99...) = state { Execute(output: .heat) } else { Execute.noOutput }
    } transitions: {
      On(event: Press.dim) { Transition(to: .on($0)) }
      On(event: .off) { Transition(to: .off) }
      On(event: .blow) { Transition(to: .broken) }
    }
  }
}

@MainActor
@Suite("View states")
struct ViewStateTests {
  private let sequence = AsyncStateMachineSequence(
    stateMachine: lamp(), runtime: Runtime().map(output: Wire.heat, to: { .blow }))

  /// Waits until `value` returns the expected value.
  private func wait<Value: Equatable>(
    for expected: Value, _ value: @escaping @MainActor () -> Value
  ) async {
    await yieldUntil(value() == expected)
  }

  @Test("A view state begins with the machine's state, and follows the machine after 'start'")
  func follows() async {
    await sequence.send(.dim(2))
    let view = ViewState(sequence)
    #expect(view.state == .on(2))
    await sequence.send(.dim(3))
    let task = Task { await view.start() }
    await wait(for: .on(3)) { view.state }
    await view.send(.off)
    await wait(for: .off) { view.state }
    // A second start has no effect.
    await view.start()
    sequence.finish()
    await task.value
    #expect(await view.send(.off) == .finished)
  }

  @Test("Observers of a view state are notified of a change")
  func observation() async {
    let view = ViewState(sequence)
    let task = Task { await view.start() }
    let changed = AsyncStream.makeStream(of: Void.self)
    withObservationTracking {
      _ = view.state
    } onChange: {
      changed.continuation.yield()
    }
    await view.send(.dim(1))
    for await _ in changed.stream { break }
    task.cancel()
    await task.value
  }

  @Test("Cancelling the start of a view state ends the run if the run has no other reader")
  func cancellation() async {
    let view = ViewState(sequence)
    let task = Task { await view.start() }
    await view.send(.dim(1))
    await wait(for: .on(1)) { view.state }
    task.cancel()
    await task.value
    #expect(await view.send(.off) == .finished)
  }

  @Test("'send' waits for a state by case, constructor, set of cases, or predicate")
  func resumes() async {
    let view = ViewState(sequence)
    #expect(await view.send(.dim(99), resumeWhen: Lamp.broken) == .accepted(.broken))
    #expect(sequence.state == .broken)
    let other = ViewState(AsyncStateMachineSequence(stateMachine: lamp()))
    #expect(await other.send(.dim(4), resumeWhen: Lamp.on) == .accepted(.on(4)))
    #expect(await other.send(.dim(5), resumeWhen: .on(0)) == .accepted(.on(5)))
    #expect(
      await other.send(
        .off,
        resumeWhen: OneOf {
          Lamp.off; Lamp.broken
        }) == .accepted(.off))
    #expect(await other.send(.dim(6), resumeWhen: { $0.level > 5 }) == .accepted(.on(6)))
  }

  @Test("'send' does not wait after a refusal, the end of the run, or a cancellation")
  func doesNotWait() async {
    let view = ViewState(sequence)
    #expect(await view.send(.fix, resumeWhen: Lamp.broken) == .refused(.noTransition))
    let waiting = Task { await view.send(.dim(1), resumeWhen: Lamp.broken) }
    await wait(for: .on(1)) { sequence.state }
    let cancelled = Task { await view.send(.dim(2), resumeWhen: Lamp.broken) }
    await wait(for: .on(2)) { sequence.state }
    cancelled.cancel()
    #expect(await cancelled.value == .finished)
    sequence.finish()
    #expect(await waiting.value == .finished)
    #expect(await view.send(.off, resumeWhen: Lamp.off) == .finished)
  }

  @Test("A view state can be a projection of the machine's state")
  func projection() async {
    struct Shown: Equatable { var text: String, isBright: Bool }
    let view = ViewState(sequence) { Shown(text: "\($0)", isBright: $0.level > 50) }
    #expect(view.state == Shown(text: "off", isBright: false))
    let task = Task { await view.start() }
    let outcome = await view.send(.dim(60), resumeWhen: { $0.isBright })
    #expect(outcome == .accepted(Shown(text: "on(60)", isBright: true)))
    await wait(for: "on(60)") { view.state.text }
    let text = view.binding(keypath: \.text, send: { .dim($0.count) })
    text.wrappedValue = "seven !"
    await wait(for: .on(7)) { sequence.state }
    task.cancel()
    await task.value
  }

  @Test("Bindings send in the order in which they are set")
  func order() async {
    let seen = sequence.makeAsyncIterator()
    let view = ViewState(sequence)
    let level = view.binding(keypath: \.level, send: Press.dim)
    for value in 1...50 { level.wrappedValue = value }
    #expect(await seen.next() == .off)
    for value in 1...50 { #expect(await seen.next() == .on(value)) }
  }

  @Test("A distinct binding sends no event when it is set to its current value")
  func distinct() async {
    let seen = sequence.makeAsyncIterator()
    let view = ViewState(sequence)
    let level = view.binding(keypath: \.level, send: Press.dim).distinct()
    level.wrappedValue = 0
    level.wrappedValue = 4
    #expect(await seen.next() == .off)
    #expect(await seen.next() == .on(4))
  }

  @Test(
    "A debounced binding sends the last value after a pause, even if each value has a new binding")
  func debounce() async {
    let clock = ManualClock()
    let seen = sequence.makeAsyncIterator()
    let view = ViewState(sequence)
    await EffectClock.$current.withValue(clock) {
      @MainActor func set(_ value: Int) {
        view.binding(keypath: \.level, send: Press.dim).debounce(for: .seconds(1)).set(value)
      }
      set(1)
      await clock.waitForSleepers()
      await clock.advance(by: .milliseconds(900))
      set(2)
      await clock.waitForSleepers()
      // The first pause would be over, but its value was replaced.
      await clock.advance(by: .milliseconds(900))
      set(3)
      await clock.waitForSleepers()
      #expect(clock.sleepers.map(\.offset) == [.milliseconds(2800)])
      await clock.advance(by: .seconds(1))
      #expect(await seen.next() == .off)
      #expect(await seen.next() == .on(3))
    }
  }
}
