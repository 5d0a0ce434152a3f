import Compositions
import Glibc
import Nodes
import PipeRuntime
import TestTraits
import Testing

// The example of the document on models: an actor with its protocol, its constant stand-in, and views
// that follow it.

@Suite("Seed: a model", .stallLimit(.seconds(20)))
struct ExampleModelTests {
  @Test("it tells its state at once, and every state that it passes through")
  func states() async throws {
    let model: any ExampleModelProtocol = try ExampleModel(startsWith: .state1(message: "hello"))
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(model.state == .state1(message: "hello"))
    #expect(await states.next() == .state1(message: "hello"))
    model.eventA()
    #expect(await states.next() == .state2(message: "hello"))
    #expect(await states.next() == .state3(message: "hello, done"))
    model.eventB(param: 7)
    #expect(await states.next() == .state1(message: "7"))
    #expect(model.state == .state1(message: "7"))
  }

  @Test("events are taken in the order given, and one that means nothing changes nothing")
  func order() async throws {
    let model = try ExampleModel(startsWith: .state1(message: "a"))
    var states = model.stateDidChange.makeAsyncIterator()
    model.eventB(param: 0)
    for param in 1...50 {
      model.eventA()
      model.eventB(param: param)
    }
    var last: ExampleState?
    while let state = await states.next() {
      last = state
      if state == .state1(message: "50") { break }
    }
    #expect(last == .state1(message: "50"))
  }

  @Test("it starts in a stable state only, and says why it does not")
  func unstable() {
    let error = #expect(throws: UnstableStateError.self) {
      try ExampleModel(startsWith: .state2(message: "half"))
    }
    #expect(error?.description.contains("state2") == true)
    #expect(error?.description.contains("isStable") == true)
  }

  @Test(
    "a constant one shows any state, for ever",
    arguments: [
      ExampleState.state1(message: "a"), .state2(message: "b"), .state3(message: "c"),
    ])
  func constant(state: ExampleState) async {
    let model: any ExampleModelProtocol = ConstantExampleModel(state)
    model.eventA()
    model.eventB(param: 1)
    #expect(model.state == state)
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(await states.next() == state)
  }

  @MainActor
  @Test("a view follows it, and is told of each change")
  func view() async throws {
    let model = try ExampleModel(startsWith: .state1(message: "hello"))
    let binding = ViewBinding(source: model)
    #expect(binding.state == .state1(message: "hello"))
    let (told, before) = AsyncStream.makeStream(of: ExampleState.self)
    let changes = ObservedChanges(
      of: { _ = binding.state }, willChange: { before.yield(binding.state) })
    model.eventA()
    // The main actor is kept busy until the model has gone on: the view misses nothing by that.
    while model.state != .state3(message: "hello, done") { sched_yield() }
    for await state in told where state == .state2(message: "hello") { break }
    await yieldUntil(binding.state == .state3(message: "hello, done"))
    #expect(binding.state.message == "hello, done")
    changes.stop()
  }

  @MainActor
  @Test("a value is read and set by a view and its model alike")
  func bidirectional() async {
    let model = ConcurrentValueStateMachine("")
    let binding = model.binding()
    var values = model.stateDidChange.makeAsyncIterator()
    #expect(await values.next() == "")
    binding.wrappedValue = "typed"
    #expect(model.state == "typed")
    #expect(await values.next() == "typed")
    model.set("from elsewhere")
    #expect(binding.wrappedValue == "from elsewhere")
    let constant = ConstantStateMachine("fixed").binding()
    constant.wrappedValue = "other"
    #expect(constant.wrappedValue == "fixed")
  }

  @Test("many threads set a value, and all who follow it see one order")
  func concurrent() async {
    let subject = ConcurrentValueSubject(0)
    let first = subject.eraseToAnyPublisher().makeAsyncIterator()
    let second = subject.eraseToAnyPublisher().makeAsyncIterator()
    await withTaskGroup { group in
      for value in 1...400 { group.addTask { subject.send(value) } }
    }
    subject.finish()
    func all(_ iterator: AsyncStream<Int>.Iterator) async -> [Int] {
      var (iterator, seen) = (iterator, [Int]())
      while let value = await iterator.next() { seen.append(value) }
      return seen
    }
    let (one, two) = (await all(first), await all(second))
    #expect(one == two)
    #expect(one.sorted() == Array(0...400))
    #expect(one.last == subject.state)
    subject.send(-1)
    #expect(subject.state != -1)
  }

  @Test("its readers may be cancelled while it is set")
  func cancelledReaders() async {
    let subject = ConcurrentValueSubject(0)
    let setter = Task.detached {
      while !Task.isCancelled {
        for _ in 0..<1_000 { subject.update { $0 += 1 } }
        // Others wait for this thread.
        await Task.yield()
      }
    }
    for _ in 0..<2_000 {
      let reader = Task.detached { for await _ in subject.eraseToAnyPublisher() {} }
      await Task.yield()
      reader.cancel()
      await reader.value
    }
    setter.cancel()
    await setter.value
    let last = subject.state
    var states = subject.eraseToAnyPublisher().makeAsyncIterator()
    #expect(await states.next() == last)
  }

  @Test("two publishers are combined, and the combination ends with the second of them")
  func combined() async {
    let first = ConcurrentValueSubject(1)
    let second = ConcurrentValueSubject("a")
    var both = first.eraseToAnyPublisher()
      .combineLatest(second.eraseToAnyPublisher()) { "\($0)\($1)" }
      .makeAsyncIterator()
    #expect(await both.next() == "1a")
    first.send(2)
    #expect(await both.next() == "2a")
    second.send("b")
    #expect(await both.next() == "2b")
    first.finish()
    second.send("c")
    #expect(await both.next() == "2c")
    second.finish()
    #expect(await both.next() == nil)
  }

  @Test("a machine is a model too")
  func machine() async throws {
    let model = try MachineModel(ModelMachine<ModelA>.self, parameters: NoParameters())
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(await states.next() == .inactive)
    model.send(.eventA(message: "hello"))
    #expect(await states.next() == .active(message: "hello"))
    #expect(model.state == .active(message: "hello"))
  }
}

@Suite("Seed: a model of two models")
struct CompositeModelTests {
  @Test("its state is made of theirs, and each takes its own events")
  func components() async throws {
    let model = try CompositeModel()
    #expect(model.state == .inactive)
    try await model.eventForModelA(message: "hello")
    #expect(model.state == .stateA(message: "hello"))
    try await model.eventForModelB(value: 3)
    #expect(model.state == .stateAB(message: "hello", value: 3))
  }

  @Test("a synchronized event is taken by both or by none")
  func synchronized() async throws {
    let model = try CompositeModel()
    try await model.eventForModelA(message: "hello")
    #expect(try await model.synchronizedEvent().isCommitted == false)
    #expect(model.state == .stateA(message: "hello"))
    try await model.eventForModelB(value: -1)
    #expect(model.state == .failed)
    #expect(try await model.synchronizedEvent().isCommitted)
    #expect(model.state == .inactive)
  }

  @Test("who follows it sees no state in which one has moved and the other not")
  func glitches() async throws {
    let model = try CompositeModel()
    let seen = Task {
      var seen: [ModelsState] = []
      for await state in model.stateDidChange {
        seen.append(state)
        if state == .stateB(value: 99) { break }
      }
      return seen
    }
    for value in 0..<20 {
      try await model.eventForModelA(message: "\(value)")
      try await model.eventForModelB(value: value)
      #expect(try await model.synchronizedEvent().isCommitted)
    }
    try await model.eventForModelB(value: 99)
    for (before, after) in zip(await seen.value, await seen.value.dropFirst()) {
      if case .stateAB = before { #expect(after == .inactive) }
    }
  }

  private static let states: [(ModelA.State, ModelB.State, ModelsState)] = [
    (.inactive, .inactive, .inactive), (.active(message: "a"), .inactive, .stateA(message: "a")),
    (.inactive, .active(value: 1), .stateB(value: 1)),
    (.active(message: "a"), .active(value: 1), .stateAB(message: "a", value: 1)),
    (.failed, .active(value: 1), .failed), (.inactive, .failed, .failed),
  ]

  @Test("models that are given to it are observed, constant ones too", arguments: states)
  func constants(modelA: ModelA.State, modelB: ModelB.State, both: ModelsState) async {
    let model = CompositeStateMachine(
      observing: ConstantStateMachine(modelA), observing: ConstantStateMachine(modelB),
      ModelsState.init(modelA:modelB:))
    #expect(model.state == both)
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(await states.next() == both)
  }

  @MainActor
  @Test("what it observes is followed, also by a view")
  func observing() async throws {
    let modelA = try MachineModel(ModelMachine<ModelA>.self, parameters: NoParameters())
    let modelB = try MachineModel(ModelMachine<ModelB>.self, parameters: NoParameters())
    let model = CompositeStateMachine(
      observing: modelA, observing: modelB, ModelsState.init(modelA:modelB:))
    let view = ViewBinding(source: model)
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(await states.next() == .inactive)
    modelA.send(.eventA(message: "hello"))
    #expect(await states.next() == .stateA(message: "hello"))
    modelB.send(.eventB(value: 3))
    #expect(await states.next() == .stateAB(message: "hello", value: 3))
    #expect(model.state == .stateAB(message: "hello", value: 3))
    await yieldUntil(view.state == model.state)
  }
}
