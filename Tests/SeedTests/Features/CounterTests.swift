import Nodes
import Observation
import PipeRuntime
import Testing

// The examples of the document on stores and features: a counter with a service, and a parent that
// is notified of its child's actions.

private struct StubService: CounterService {
  func increment(_ count: Int) async -> Int { count + 10 }
  func decrement(_ count: Int) async -> Int { count - 10 }
}

/// A service that computes one sum at a time, each only when the test permits it.
private actor SlowService: CounterService {
  private var waiting: [CheckedContinuation<Void, Never>] = []
  private var watchers: [CheckedContinuation<Void, Never>] = []

  func increment(_ count: Int) async -> Int {
    await withCheckedContinuation {
      waiting.append($0); notify()
    }
    return count + 1
  }

  func decrement(_ count: Int) async -> Int { count - 1 }

  private func notify() {
    for watcher in watchers { watcher.resume() }
    watchers = []
  }

  /// Waits until the service has begun a sum.
  func begins() async {
    while waiting.isEmpty { await withCheckedContinuation { watchers.append($0) } }
  }

  /// Waits until the service has begun a sum, and lets it finish.
  func letGo() async {
    await begins()
    waiting.removeFirst().resume()
  }
}

@MainActor
@Suite("A store and its feature")
struct CounterTests {
  private func store(_ service: any CounterService = UnitSteps()) -> Store<CounterFeature> {
    Store(feature: CounterFeature(service: service), initialState: .init())
  }

  @Test("An awaited action returns after its feature has changed the state")
  func increment() async {
    let store = store()
    await store.send(action: .increment)
    #expect(store.state.count == 1)
    await store.send(action: .decrement)
    #expect(store.state.count == 0)
  }

  @Test("A feature uses the dependency that it was created with")
  func dependency() async {
    let store = store(StubService())
    await store.send(action: .increment)
    #expect(store.state.count == 10)
  }

  @Test("Overlapping actions are processed one after the other, and none is lost")
  func overlapping() async {
    let service = SlowService()
    let store = store(service)
    // Both actions are sent before the first action is done. If both started from 0, one increment
    // would be lost.
    async let first: Void = store.send(action: .increment)
    async let second: Void = store.send(action: .increment)
    await service.letGo()
    await service.letGo()
    _ = await (first, second)
    #expect(store.state.count == 2)
  }

  @Test("Actions sent without waiting are processed in the order sent")
  func order() async {
    let store = store()
    // A synchronous function, because in an async context Swift chooses the overload that waits.
    func press() { store.send(action: .increment) }
    for _ in 0..<100 { press() }
    await store.send(action: .decrement)
    #expect(store.state.count == 99)
  }

  @Test("A binding sets its part of the state and then sends its action to the feature")
  func binding() async {
    let store = store()
    let note = store.binding(for: \.note, action: .note)
    note.wrappedValue = String(repeating: "x", count: 50)
    #expect(note.wrappedValue.count == 50)
    // The feature shortens the note.
    await store.send(action: .increment)
    #expect(note.wrappedValue.count == 40)
    note.wrappedValue = store.state.note
    #expect(store.state == CounterFeature.State(count: 1, note: String(repeating: "x", count: 40)))
  }

  @Test(
    "A value set by a view is shown at once, even during an action, and remains after the action")
  func typed() async {
    let service = SlowService()
    let store = store(service)
    let note = store.binding(for: \.note, action: .note)
    async let action: Void = store.send(action: .increment)
    await service.begins()
    for text in ["h", "he", "he", "h", "hello"] {
      note.wrappedValue = text
      #expect(note.wrappedValue == text)
    }
    #expect(store.state.count == 0)
    await service.letGo()
    await action
    // The action began before the note was set. Its result has no note, so the note is set again.
    #expect(store.state == CounterFeature.State(count: 1, note: "hello"))
    // The next action starts with the note, and its feature shortens it.
    note.wrappedValue = String(repeating: "x", count: 50)
    async let next: Void = store.send(action: .increment)
    await service.letGo()
    await next
    #expect(
      store.state == CounterFeature.State(count: 2, note: String(repeating: "x", count: 40)))
  }

  @Test("A value set in a child's part of the state is shown at once, even during an action")
  func typedInChild() async {
    let service = SlowService()
    let parent = Store(feature: TallyFeature(), initialState: .init())
    let child = parent.scope(
      state: \.counter, action: TallyFeature.Action.counter,
      feature: CounterFeature(service: service))
    async let action: Void = child.send(action: .increment)
    await service.begins()
    child.binding(for: \.note, action: .note).wrappedValue = "hello"
    #expect(child.state.note == "hello" && parent.state.counter.note == "hello")
    await service.letGo()
    await action
    #expect(
      parent.state
        == TallyFeature.State(counter: .init(count: 1, note: "hello"), increments: 1))
  }

  @Test("An observer of a store's state is notified of a change")
  func observed() async {
    let store = store()
    let (changes, change) = AsyncStream.makeStream(of: Void.self)
    withObservationTracking {
      _ = store.state.count
    } onChange: {
      change.yield()
    }
    await store.send(action: .increment)
    var iterator = changes.makeAsyncIterator()
    #expect(await iterator.next() != nil)
  }

  @Test("A child's action changes its part of the state and reaches its parent in the same step")
  func scoped() async {
    let parent = Store(feature: TallyFeature(), initialState: .init())
    let child = parent.scope(
      state: \.counter, action: TallyFeature.Action.counter, feature: CounterFeature())
    await child.send(action: .increment)
    await child.send(action: .increment)
    await child.send(action: .decrement)
    #expect(child.state.count == 1)
    #expect(
      parent.state
        == TallyFeature.State(counter: .init(count: 1), increments: 2, decrements: 1))
    await parent.send(action: .reset)
    #expect(child.state.count == 1)
    #expect(parent.state.increments == 0)
    child.binding(for: \.note, action: .note).wrappedValue = "hello"
    #expect(parent.state.counter.note == "hello")
  }

  /// The document's view: it holds the store, and passes a part of the store to its child.
  private struct ParentView: Storable {
    let store: Store<TallyFeature>

    struct ChildView: Storable {
      let store: Store<CounterFeature>
      var text: String { "\(store.state.count)" }
    }

    var child: ChildView {
      ChildView(
        store: store.scope(
          state: \.counter, action: TallyFeature.Action.counter, feature: CounterFeature()))
    }
    var text: String { "\(store.state.increments) up, \(store.state.decrements) down" }
  }

  @Test("A view holds a store, and its child view holds a part of the store")
  func storable() async {
    func send<View: Storable>(_ action: View.Feature.Action, from view: View) async {
      await view.store.send(action: action)
    }
    let view = ParentView(store: Store(feature: TallyFeature(), initialState: .init()))
    await send(.increment, from: view.child)
    await send(.decrement, from: view.child)
    await send(.decrement, from: view.child)
    #expect(view.child.text == "-1" && view.text == "1 up, 2 down")
    await send(.reset, from: view)
    #expect(view.child.text == "-1" && view.text == "0 up, 0 down")
  }

  @Test("An action of a nested child reaches its parent and the parent's parent")
  func nested() async {
    struct Whole: FeatureType {
      struct State: Sendable, Equatable {
        var tally = TallyFeature.State()
        var heard = 0
      }
      enum Action: Sendable { case tally(TallyFeature.Action) }
      func reduce(state: State, action: Action) async -> State {
        State(tally: state.tally, heard: state.heard + 1)
      }
    }
    let whole = Store(feature: Whole(), initialState: .init())
    let counter =
      whole
      .scope(state: \.tally, action: Whole.Action.tally, feature: TallyFeature())
      .scope(state: \.counter, action: TallyFeature.Action.counter, feature: CounterFeature())
    await counter.send(action: .increment)
    #expect(whole.state.tally == TallyFeature.State(counter: .init(count: 1), increments: 1))
    #expect(whole.state.heard == 1)
  }

  private struct Other: FeatureType {
    func reduce(state: CounterFeature.State, action: Bool) async -> CounterFeature.State {
      CounterFeature.State(count: state.count, note: "other")
    }
  }

  private struct Number: FeatureType {
    func reduce(state: Int, action: Bool) async -> Int { state + 1 }
  }

  @Test("Features on the same or nested parts of a state do not overwrite each other's changes")
  func overlappingScopes() async {
    let parent = Store(feature: TallyFeature(), initialState: .init())
    let child = parent.scope(
      state: \.counter, action: TallyFeature.Action.counter, feature: CounterFeature())
    let other = parent.scope(
      state: \.counter, action: { _ in TallyFeature.Action.counter(.decrement) }, feature: Other())
    let number = parent.scope(
      state: \.counter.count, action: { _ in TallyFeature.Action.counter(.increment) },
      feature: Number())
    async let first: Void = child.send(action: .increment)
    async let second: Void = number.send(action: true)
    async let third: Void = other.send(action: true)
    _ = await (first, second, third)
    await child.send(action: .increment)
    #expect(number.state == 3 && other.state.count == 3)
    #expect(
      parent.state
        == TallyFeature.State(
          counter: .init(count: 3, note: "other"), increments: 3, decrements: 1))
  }

  @Test("A nested part of a store can be scoped again after its intermediate store was released")
  func scopedAgain() async {
    let parent = Store(feature: TallyFeature(), initialState: .init())
    func counter() -> Store<CounterFeature> {
      parent.scope(
        state: \.counter, action: TallyFeature.Action.counter, feature: CounterFeature())
    }
    func count(_ counter: Store<CounterFeature>) -> Store<Number> {
      counter.scope(
        state: \.count, action: { _ in CounterFeature.Action.increment }, feature: Number())
    }
    // The store in between is released before another one replaces it.
    let first = count(counter())
    let second = count(counter())
    await first.send(action: true)
    await second.send(action: true)
    #expect(parent.state.increments == 2)
  }
}
