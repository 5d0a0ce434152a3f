import PipeMachines
import PipeSupport
import Synchronization
import Testing

private enum Word: MachineEvent, Hashable { case ask, answer, other }
private enum Mood: MachineState, Hashable { case quiet, asked(String), answered, done }

/// Collects warnings.
private final class Log: Sendable {
  private let lines = Mutex<[String]>([])
  var all: [String] { lines.withLock { $0 } }
  func tell(_ line: String) { lines.withLock { $0.append(line) } }
}

/// Lets a machine's transition send to that machine.
private final class Wire: Sendable {
  private let sequences = Mutex<[AsyncStateMachineSequence<Mood, Word, Never>]>([])
  func join(_ sequence: AsyncStateMachineSequence<Mood, Word, Never>) {
    sequences.withLock { $0.append(sequence) }
  }
  func finish() { sequences.withLock { $0[0].finish() } }
  func send(_ word: Word, to place: Int = 0) async -> SendOutcome<Mood> {
    await sequences.withLock { $0[place] }.send(word)
  }
}

/// Returns a machine whose `ask` awaits `work`, and which accepts an answer in any state.
private func machine(_ work: @escaping @Sendable () async -> Mood) -> StateMachine<
  Mood, Word, Never
> {
  StateMachine(initial: Mood.quiet) {
    When(
      states: OneOf {
        Mood.quiet; Mood.asked; Mood.answered; Mood.done
      }
    ) { _ in
      Execute.noOutput
    } transitions: { _ in
      On(event: Word.ask) { Transition(to: await work()) }
      On(event: Word.answer) { Transition(to: Mood.answered) }
      On(event: Word.other) { Transition(to: Mood.done) }
    }
  }
}

extension SendOutcome {
  /// The text of the error with which the event was refused.
  fileprivate var error: String? {
    if case .refused(let refusal) = self { refusal.error } else { nil }
  }
}

@Suite("Steps that await 'send' to their own machine", .timeLimit(.minutes(1)))
struct SelfSendTests {
  private func run(_ wire: Wire, _ machine: StateMachine<Mood, Word, Never>) {
    wire.join(AsyncStateMachineSequence(stateMachine: machine, runtime: Runtime()))
  }

  private static func naming(_ outer: String, _ inner: String) -> @Sendable (String) -> Bool {
    { $0.contains("the step of '\(outer)'") && $0.contains("awaits the send of '\(inner)'") }
  }

  @Test("A step that awaits 'send' to its own machine gets an error that names both events")
  func machine() async throws {
    let (wire, log) = (Wire(), Log())
    await Warnings.$tell.withValue({ log.tell($0) }) {
      run(wire, PipeMachinesTests.machine { .asked(await wire.send(.answer).error ?? "taken") })
      let outcome = await wire.send(.ask)
      guard case .accepted(.asked(let error)) = outcome else {
        Issue.record("\(outcome)")
        return
      }
      #expect(Self.naming("ask", "answer")(error), "\(error)")
      // The machine continues.
      #expect(await wire.send(.answer) == .accepted(.answered))
    }
  }

  @Test("A cycle of awaited 'send' calls of two machines is detected, even if a machine is busy")
  func chain() async throws {
    let wire = Wire()
    await Warnings.$tell.withValue({ _ in }) {
      run(wire, PipeMachinesTests.machine { .asked(await wire.send(.ask, to: 1).error ?? "taken") })
      run(
        wire, PipeMachinesTests.machine { .asked(await wire.send(.answer, to: 0).error ?? "taken") }
      )
      // The second machine is busy with other events when the first one sends.
      async let others: Void = {
        for _ in 0..<100 { _ = await wire.send(.other, to: 1) }
      }()
      #expect(await wire.send(.ask) == .accepted(.asked("taken")))
      await others
    }
  }

  @Test("A step can send to its own machine from a separate task")
  func task() async throws {
    let (wire, log) = (Wire(), Log())
    await Warnings.$tell.withValue({ log.tell($0) }) {
      let answered = AsyncStream.makeStream(of: SendOutcome<Mood>.self)
      run(
        wire,
        PipeMachinesTests.machine {
          Task { answered.continuation.yield(await wire.send(.answer)) }
          return .done
        })
      #expect(await wire.send(.ask) == .accepted(.done))
      for await outcome in answered.stream {
        #expect(outcome == .accepted(.answered))
        break
      }
    }
    #expect(log.all == [])
  }

  @Test("If a child task of the step awaits 'send', a warning is logged and 'send' does not return")
  func childTask() async throws {
    let (wire, log) = (Wire(), Log())
    await Warnings.$tell.withValue({ log.tell($0) }) {
      run(
        wire,
        PipeMachinesTests.machine {
          async let answer = wire.send(.answer)
          return .asked(await answer.error ?? "taken")
        })
      let asking = Task { await wire.send(.ask) }
      while log.all.isEmpty { try? await Task.sleep(for: .milliseconds(50)) }
      #expect(Self.naming("ask", "answer")(log.all[0]), "\(log.all)")
      wire.finish()
      #expect(await asking.value == .finished)
    }
  }

  @Test("A cycle of awaited 'send' calls in a composite gets an error that names both events")
  func composite() async throws {
    let wire = Locked<(@Sendable (Word) async -> String)?>(nil)
    let asker = CompositeComponent(
      "asker",
      stateMachine: PipeMachinesTests.machine { .asked(await wire.withLock { $0! }(.answer)) },
      runtime: Runtime())
    let other = CompositeComponent(
      "other", stateMachine: PipeMachinesTests.machine { .done }, runtime: Runtime())
    await Warnings.$tell.withValue({ _ in }) {
      do {
        let pair = try AsyncCompositeSequence("pair", asker, other, synchronize: [])
        wire.withLock { $0 = { word in (try? await pair.send(word, to: asker))?.error ?? "taken" } }
        guard case .accepted(.asked(let error)) = try await pair.send(Word.ask, to: asker) else {
          Issue.record("not taken")
          return
        }
        #expect(Self.naming("ask", "answer")(error), "\(error)")
      } catch { Issue.record("\(error)") }
    }
  }
}

// The same tests for stores.

private struct Diary: Sendable, Equatable {
  var entries: [String] = []
  var part = 0
}

private enum Entry: Sendable { case outer, inner, unawaited, child }

/// Lets a store's action send to that store.
@MainActor
private final class Library {
  var stores: [Store<DiaryFeature>] = []
  var part: Store<PartFeature>?
}

private struct DiaryFeature: FeatureType {
  let library: Library
  var target = 0

  func reduce(state: Diary, action: Entry) async -> Diary {
    var next = state
    switch action {
    case .outer: await library.stores[target].send(action: .inner)
    case .inner: break
    case .unawaited: Task { [library] in await library.stores[0].send(action: .inner) }
    case .child: await library.part?.send(action: true)
    }
    next.entries.append("\(action)")
    return next
  }
}

private struct PartFeature: FeatureType {
  func reduce(state: Int, action: Bool) async -> Int { state + 1 }
}

@MainActor
@Suite("Actions that await 'send' to their own store", .timeLimit(.minutes(1)))
struct SelfSendingStoreTests {
  private let library = Library()
  private let log = Log()

  private func store(sendingTo target: Int = 0) -> Store<DiaryFeature> {
    let store = Store(
      feature: DiaryFeature(library: library, target: target), initialState: Diary())
    library.stores.append(store)
    return store
  }

  /// Waits until earlier posts were processed.
  private func entries(of store: Store<DiaryFeature>) async -> [String] {
    for _ in 0..<1_000 where store.state.entries.count < 2 { await Task.yield() }
    return store.state.entries
  }

  @Test("If an action awaits 'send' to its own store, 'send' returns early and a warning is logged")
  func own() async {
    let store = store()
    await Warnings.$tell.withValue({ [log] in log.tell($0) }) { await store.send(action: .outer) }
    #expect(await entries(of: store) == ["outer", "inner"])
    #expect(log.all.count == 1)
    #expect(
      log.all.first?.contains("the step of 'outer' awaits the send of 'inner' to its own machine")
        == true, "\(log.all)")
  }

  @Test("A cycle of awaited 'send' calls through a scoped store or another store does not deadlock")
  func others() async {
    let store = store(sendingTo: 1)
    let other = self.store(sendingTo: 0)
    library.part = store.scope(
      state: \.part, action: { _ in Entry.inner }, feature: PartFeature())
    await Warnings.$tell.withValue({ [log] in log.tell($0) }) {
      await store.send(action: .child)
      #expect(await entries(of: store) == ["child", "inner"])
      #expect(store.state.part == 1)
      library.stores[1] = other
      await store.send(action: .outer)
    }
    #expect(other.state.entries == ["inner"])
    #expect(log.all.count == 1)
  }

  @Test("A cycle of awaited 'send' calls from one store through a second store does not deadlock")
  func chain() async {
    struct Relay: FeatureType {
      let library: Library
      func reduce(state: Int, action: Bool) async -> Int {
        await library.stores[0].send(action: .inner)
        return state + 1
      }
    }
    // The first store's action goes through the relay, which sends to the first store.
    let first = store()
    let relay = Store(feature: Relay(library: library), initialState: 0)
    struct Through: FeatureType {
      let relay: Store<Relay>
      func reduce(state: Diary, action: Entry) async -> Diary {
        var next = state
        if case .outer = action { await relay.send(action: true) }
        next.entries.append("\(action)")
        return next
      }
    }
    let through = first.scope(
      state: \.self, action: { (action: Entry) in action == .outer ? .inner : action },
      feature: Through(relay: relay))
    await Warnings.$tell.withValue({ [log] in log.tell($0) }) { await through.send(action: .outer) }
    #expect(relay.state == 1)
    #expect(log.all.count == 1, "\(log.all)")
    #expect(await entries(of: first).first == "outer")
  }

  @Test("A 'send' from a separate task returns after the action is processed, without a warning")
  func unawaited() async {
    let store = store()
    await Warnings.$tell.withValue({ [log] in log.tell($0) }) {
      await store.send(action: .unawaited)
      #expect(await entries(of: store) == ["unawaited", "inner"])
    }
    #expect(log.all == [])
  }
}
