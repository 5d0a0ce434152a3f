import PipeMachines
import PipeRuntimeTestKit
import Testing

private enum Load: DSLCompatible, Equatable {
  case idle, loading(String), loaded(Int), failed(String)
}
private enum Step: DSLCompatible { case load(String), found(Int), lost(String), stop }
private enum Ask: DSLCompatible { case fetch(String), rest }
private struct Missing: Error { let name: String }

private func machine() -> StateMachine<Load, Step, Ask> {
  StateMachine(initial: .idle) {
    When(
      states: OneOf {
        Load.idle; Load.loading; Load.loaded; Load.failed
      }
    ) { state in
      switch state {
      case .idle: Execute(output: .rest)
      case .loading(let name): Execute(output: .fetch(name))
      default: Execute.noOutput
      }
    } transitions: {
      On(event: Step.load) { Transition(to: .loading($0)) }
      On(event: Step.found) { Transition(to: .loaded($0)) }
      On(event: Step.lost) { Transition(to: .failed($0)) }
      On(event: .stop) { Transition(to: .idle) }
    }
  }
}

private func fetch(_ name: String) async throws -> Step? {
  await Task.yield()
  guard name == "known" else { throw Missing(name: name) }
  return .found(7)
}

private func fetch(_ name: String, known: String) async throws -> Step? {
  guard name == known else { throw Missing(name: name) }
  return .found(8)
}

@Suite("Effects of a machine")
struct EffectTests {
  /// Starts a load, and returns the resulting state.
  private func load(_ name: String, _ runtime: Runtime<Load, Step, Ask>) async -> Load? {
    let sequence = AsyncStateMachineSequence(stateMachine: machine(), runtime: runtime)
    await sequence.send(.load(name))
    for await state in sequence {
      switch state {
      case .idle, .loading: continue
      case .loaded, .failed: return state
      }
    }
    return nil
  }

  @Test("A failure of an effect is mapped to an event", arguments: ["known", "unknown"])
  func failure(name: String) async {
    let wanted: Load = name == "known" ? .loaded(7) : .failed("unknown")
    let runtime = Runtime<Load, Step, Ask>()
      .map(output: Ask.fetch, to: fetch(_:), catch: { .lost(($0 as? Missing)?.name ?? "") })
    #expect(await load(name, runtime) == wanted)
  }

  @Test("An effect that throws still throws when its dependencies are injected")
  func injected() async {
    let effect = inject(dep: "key", in: fetch(_:known:))
    let runtime = Runtime<Load, Step, Ask>()
      .map(output: Ask.fetch, to: effect, catch: { .lost("\($0)") })
    #expect(await load("key", runtime) == .loaded(8))
    let other = Runtime<Load, Step, Ask>()
      .map(
        output: Ask.fetch, to: inject(dep: "key", in: fetch(_:known:)), catch: { _ in .lost("") })
    #expect(await load("lock", other) == .failed(""))
  }

  @Test("A failing sequence of events delivers its events and then the failure's event")
  func sequence() async {
    let runtime = Runtime<Load, Step, Ask>()
      .map(
        output: Ask.rest,
        to: { () async throws -> AsyncThrowingStream<Step, any Error> in
          AsyncThrowingStream { continuation in
            continuation.yield(.found(1))
            continuation.yield(.found(2))
            continuation.finish(throwing: Missing(name: "third"))
          }
        }, catch: { .lost(($0 as? Missing)?.name ?? "") })
    let sequence = AsyncStateMachineSequence(stateMachine: machine(), runtime: runtime)
    var states: [Load] = []
    for await state in sequence {
      states.append(state)
      if case .failed = state { break }
    }
    #expect(states == [.idle, .loaded(1), .loaded(2), .failed("third")])
  }

  @Test("An effect sleeps by the clock that was current when its machine was created")
  func clock() async throws {
    let clock = ManualClock()
    let runtime = Runtime<Load, Step, Ask>()
      .map(
        output: Ask.fetch,
        to: { (_: String) async throws -> Step? in
          try await EffectClock.sleep(for: .seconds(3600))
          return .found(1)
        }, catch: { _ in nil })
    let sequence = EffectClock.$current.withValue(clock) {
      AsyncStateMachineSequence(stateMachine: machine(), runtime: runtime)
    }
    // The sender's own clock does not matter.
    await sequence.send(.load("by and by"))
    await clock.waitForSleepers()
    #expect(clock.sleepers.map(\.offset) == [.seconds(3600)])
    await clock.advance(by: .seconds(3599))
    #expect(sequence.state == .loading("by and by"))
    await clock.advance(by: .seconds(1))
    for await state in sequence where state == .loaded(1) { break }
  }

  @Test(
    "A cancelled effect's sleep ends at once, and the machine ignores the effect's failure event")
  func cancelled() async {
    let ended = AsyncStream.makeStream(of: Bool.self)
    let runtime = Runtime<Load, Step, Ask>()
      .map(
        output: Ask.fetch,
        to: { (_: String) async throws -> Step? in
          do {
            try await EffectClock.sleep(for: .seconds(3600))
          } catch {
            ended.continuation.yield(error is CancellationError)
            throw error
          }
          return .found(1)
        }, catch: { _ in .lost("taken") }, strategy: .cancelWhenAnyState)
    let sequence = AsyncStateMachineSequence(stateMachine: machine(), runtime: runtime)
    await sequence.send(.load("long"))
    await sequence.send(.stop)
    for await isCancellation in ended.stream {
      #expect(isCancellation)
      break
    }
    #expect(await sequence.send(.found(3)) == .accepted(.loaded(3)))
    #expect(sequence.state == .loaded(3))
  }

  @Test(
    "An effect runs with its given priority, not with the priority of the sender's task",
    arguments: [(TaskPriority.background, TaskPriority.high), (.high, .background)])
  func priority(given: TaskPriority, sender: TaskPriority) async {
    let seen = AsyncStream.makeStream(of: TaskPriority.self)
    let runtime = Runtime<Load, Step, Ask>()
      .map(
        output: Ask.fetch,
        to: { (_: String) async -> Step? in
          seen.continuation.yield(Task.currentPriority)
          return nil
        }, priority: given)
    let sequence = AsyncStateMachineSequence(stateMachine: machine(), runtime: runtime)
    // Posted by a detached task that is not awaited: an awaited one would get the test's priority.
    Task.detached(priority: sender) { sequence.post(.load("x")) }
    for await priority in seen.stream {
      #expect(priority == given)
      break
    }
  }
}
