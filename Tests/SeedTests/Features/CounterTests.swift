import Nodes
import Observation
import PipeRuntime
import Testing

// The examples of the document on stores and features: a counter with a service, and a parent that
// learns of what its child does.

private struct StubService: CounterService {
  func increment(_ count: Int) async -> Int { count + 10 }
  func decrement(_ count: Int) async -> Int { count - 10 }
}

/// Does one sum after the other, each only when the test lets it.
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

  /// Waits until a sum is being done.
  func begins() async {
    while waiting.isEmpty { await withCheckedContinuation { watchers.append($0) } }
  }

  /// Lets the sum that is being done be done, as soon as there is one.
  func letGo() async {
    await begins()
    waiting.removeFirst().resume()
  }
}

@MainActor
@Suite("Seed: a store and its feature")
struct CounterTests {
  private func store(_ service: any CounterService = UnitSteps()) -> Store<CounterFeature> {
    Store(feature: CounterFeature(service: service), initialState: .init())
  }

  @Test("an action leads to the state that its feature says, when it has been awaited")
  func increment() async {
    let store = store()
    await store.send(action: .increment)
    #expect(store.state.count == 1)
    await store.send(action: .decrement)
    #expect(store.state.count == 0)
  }

  @Test("what a feature depends on is given to it")
  func dependency() async {
    let store = store(StubService())
    await store.send(action: .increment)
    #expect(store.state.count == 10)
  }

  @Test("actions that overlap are taken one after the other, and none is lost")
  func overlapping() async {
    let service = SlowService()
    let store = store(service)
    // Both are under way before the first is done: each starting from 0, one of them would be lost.
    async let first: Void = store.send(action: .increment)
    async let second: Void = store.send(action: .increment)
    await service.letGo()
    await service.letGo()
    _ = await (first, second)
    #expect(store.state.count == 2)
  }

  @Test("what is sent without waiting is taken in the order sent")
  func order() async {
    let store = store()
    // Swift takes the form that waits wherever waiting is possible.
    func press() { store.send(action: .increment) }
    for _ in 0..<100 { press() }
    await store.send(action: .decrement)
    #expect(store.state.count == 99)
  }

  @Test("a binding sets a part of the state and then tells the feature, once for each other value")
  func binding() async {
    let store = store()
    let note = store.binding(for: \.note, action: .note)
    note.wrappedValue = String(repeating: "x", count: 50)
    #expect(note.wrappedValue.count == 50)
    // The feature has its say.
    await store.send(action: .increment)
    #expect(note.wrappedValue.count == 40)
    note.wrappedValue = store.state.note
    #expect(store.state == CounterFeature.State(count: 1, note: String(repeating: "x", count: 40)))
  }

  @Test(
    "what a view sets is shown at once, also while an action is being taken, and stays after it")
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
    // The action began before, and led to a state without a note.
    #expect(store.state == CounterFeature.State(count: 1, note: "hello"))
    // An action that follows begins with it, and has its say.
    note.wrappedValue = String(repeating: "x", count: 50)
    async let next: Void = store.send(action: .increment)
    await service.letGo()
    await next
    #expect(
      store.state == CounterFeature.State(count: 2, note: String(repeating: "x", count: 40)))
  }

  @Test("what a view sets in a child's part is shown at once, while its parent takes an action")
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

  @Test("who observes the state is told of its changes")
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

  @Test("a child's actions change its part of the state, and reach its parent in the same step")
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

  /// What the document has as a view: it holds the store, and gives its child a part of it.
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

  @Test("a view holds a store, and its child a part of it")
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

  @Test("a child of a child reaches all above it")
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

  @Test(
    "two features on one part of the state, or on a part of it, each go on from what the other left"
  )
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

  @Test("a part may be scoped from its parent's store again, and let go of in any order")
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
    // The store in between is gone before another one takes its place.
    let first = count(counter())
    let second = count(counter())
    await first.send(action: true)
    await second.send(action: true)
    #expect(parent.state.increments == 2)
  }
}
