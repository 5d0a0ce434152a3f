import Compositions
import Glibc
import Nodes
import PipeRuntime
import TestTraits
import Testing

// The example of the document on models: an actor with its protocol, a constant stand-in, and views
// that follow the actor.

@Suite("An actor as a model", .stallLimit(.seconds(20)))
struct ExampleModelTests {
  @Test("A model reports its current state at once, and then every state that it passes through")
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

  @Test("A model processes its events in order and ignores an event without a transition")
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

  @Test("A model that is started in an unstable state throws an error with the reason")
  func unstable() {
    let error = #expect(throws: UnstableStateError.self) {
      try ExampleModel(startsWith: .state2(message: "half"))
    }
    #expect(error?.description.contains("state2") == true)
    #expect(error?.description.contains("isStable") == true)
  }

  @Test(
    "A constant model stays in its state, whatever events it receives",
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
  @Test("A view follows a model and is notified of each change")
  func view() async throws {
    let model = try ExampleModel(startsWith: .state1(message: "hello"))
    let binding = ViewBinding(source: model)
    #expect(binding.state == .state1(message: "hello"))
    let (reported, before) = AsyncStream.makeStream(of: ExampleState.self)
    let changes = ObservedChanges(
      of: { _ = binding.state }, willChange: { before.yield(binding.state) })
    model.eventA()
    // Keep the main actor busy until the model has changed its state. The view must not miss a state.
    while model.state != .state3(message: "hello, done") { sched_yield() }
    for await state in reported where state == .state2(message: "hello") { break }
    await yieldUntil(binding.state == .state3(message: "hello, done"))
    #expect(binding.state.message == "hello, done")
    changes.stop()
  }

  @MainActor
  @Test("A view and its model read and set the same value")
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

  @Test("Values set from many threads reach all readers in the same order")
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

  @Test("Readers of a subject can be cancelled while its value is set")
  func cancelledReaders() async {
    let subject = ConcurrentValueSubject(0)
    let setter = Task.detached {
      while !Task.isCancelled {
        for _ in 0..<1_000 { subject.update { $0 += 1 } }
        // Other tasks wait for this thread.
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

  @Test("A combination of two publishers ends when both have ended")
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

  @Test("A machine can be used as a model")
  func machine() async throws {
    let model = try MachineModel(ModelMachine<ModelA>.self, parameters: NoParameters())
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(await states.next() == .inactive)
    model.send(.eventA(message: "hello"))
    #expect(await states.next() == .active(message: "hello"))
    #expect(model.state == .active(message: "hello"))
  }
}

@Suite("A model of two models")
struct CompositeModelTests {
  @Test("A composite model combines the states of its models, and each model gets its own events")
  func components() async throws {
    let model = try CompositeModel()
    #expect(model.state == .inactive)
    try await model.eventForModelA(message: "hello")
    #expect(model.state == .stateA(message: "hello"))
    try await model.eventForModelB(value: 3)
    #expect(model.state == .stateAB(message: "hello", value: 3))
  }

  @Test("A synchronized event is accepted by both models or by neither")
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

  @Test("A reader never sees a synchronized event applied to only one of two models")
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

  @Test(
    "A composite model observes all of its models, even constant models", arguments: states)
  func constants(modelA: ModelA.State, modelB: ModelB.State, both: ModelsState) async {
    let model = CompositeStateMachine(
      observing: ConstantStateMachine(modelA), observing: ConstantStateMachine(modelB),
      ModelsState.init(modelA:modelB:))
    #expect(model.state == both)
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(await states.next() == both)
  }

  @MainActor
  @Test("A composite model and its view follow the observed models")
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
