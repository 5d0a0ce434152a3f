import Nodes
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// A view of the example that knows only its model's protocol.
@MainActor
private final class ExampleView {
  private let model: any ExampleModelProtocol
  private let binding: ViewBinding<ExampleState>

  init(observing model: any ExampleModelProtocol) {
    self.model = model
    binding = ViewBinding(source: model)
  }

  var body: String { binding.state.message }
  func press() { model.eventA() }

  func shows(_ text: String) async -> Bool {
    while body != text {
      guard !Task.isCancelled else { return false }
      await Task.yield()
    }
    return true
  }
}

@Suite("Models and views of a remote node", .timed)
struct RemoteModelTests {
  private typealias Example = RemoteModel<ExampleState, ExampleModel.Event>

  private static let example = "topologies/example.yaml"

  @MainActor
  @Test("A view runs with an actor in the same process, a constant, or a node in another process")
  func view() async throws {
    try await withTopology(Self.example) { topology in
      let remote = try await Example("example", of: topology.client)
      let actor = try ExampleModel(startsWith: .state1(message: "start"))
      for model in [remote, actor] as [any ExampleModelProtocol] {
        let view = ExampleView(observing: model)
        #expect(view.body == "start")
        view.press()
        #expect(await view.shows("start, done"))
        model.eventB(param: 7)
        #expect(await view.shows("7"))
      }
      let constant = ExampleView(observing: ConstantExampleModel(.state2(message: "half")))
      constant.press()
      #expect(constant.body == "half")
    }
  }

  @Test("A remote model has the node's current state at once, and then every later state")
  func states() async throws {
    try await withTopology(Self.example) { topology in
      let model = try await Example("example", of: topology.client)
      var states = model.stateDidChange.makeAsyncIterator()
      #expect(await states.next() == .state1(message: "start"))
      model.eventA()
      #expect(await states.next() == .state2(message: "start"))
      #expect(await states.next() == .state3(message: "start, done"))
      model.eventB(param: 7)
      #expect(await states.next() == .state1(message: "7"))
      #expect(model.problem == nil)
    }
  }

  @Test("'send' resumes when the awaited state follows the event, however briefly the state lasts")
  func resuming() async throws {
    try await withTopology(Self.example) { topology in
      let model = try await Example("example", of: topology.client)
      for param in 1...50 {
        let half = try await model.send(.eventA, resumeWhen: ExampleState.state2(message:))
        #expect(half == .accepted(.state2(message: param == 1 ? "start" : "\(param - 1)")))
        // The model entered its current state 3 before the event, so that state does not count.
        let first = try await model.send(.eventB(param: param)) { $0.isStable }
        #expect(first == .accepted(.state1(message: "\(param)")))
      }
    }
  }

  @MainActor
  @Test("A view state and its bindings work with a remote model as with a local machine")
  func viewState() async throws {
    try await withTopology(Self.example) { topology in
      let model = try await Example("example", of: topology.client)
      let view = ViewState(model)
      let following = Task { await view.start() }
      defer { following.cancel() }
      #expect(view.state == .state1(message: "start"))
      #expect(
        await view.send(.eventA, resumeWhen: ExampleState.state2(message:))
          == .accepted(.state2(message: "start")))
      #expect(
        await view.send(.eventB(param: 2), resumeWhen: OneOf { ExampleState.state1(message:) })
          == .accepted(.state1(message: "2")))
      let text = view.binding(keypath: \.message) { _ in .eventA }
      text.wrappedValue = "anything"
      while text.wrappedValue != "2, done" {
        try Task.checkCancellation()
        await Task.yield()
      }
    }
  }

  @Test("A remote model continues with the next process of its node and shows that process's state")
  func restarted() async throws {
    try await withTopology(Self.example) { topology in
      let model = try await Example("example", of: topology.client)
      for param in 1...3 {
        #expect(try await model.send(.eventA, resumeWhen: .state3(message: "")) != .finished)
        try await topology.kill("example")
        let outcome = try await model.send(
          .eventB(param: param), resumeWhen: ExampleState.state1(message:))
        #expect(outcome == .accepted(.state1(message: "\(param)")))
      }
    }
  }

  @Test("A remote model's states end with the topology")
  func ended() async throws {
    var states: AsyncStream<ExampleState>.Iterator?
    var model: Example?
    try await withTopology(Self.example) { topology in
      model = try await Example("example", of: topology.client)
      states = model?.stateDidChange.makeAsyncIterator()
    }
    #expect(await states?.next() == .state1(message: "start"))
    #expect(await states?.next() == nil)
    let sender = try #require(model)
    await #expect(throws: TopologyClientError.self) { try await sender.send(.eventA) }
  }
}

@Suite("A remote model whose node is missing or of another type", .timed)
struct RemoteModelProblemTests {
  private typealias Example = RemoteModel<ExampleState, ExampleModel.Event>

  private static let text = """
    topology: ward
    program: nodes
    nodes:
      example: { machine: ExampleModel }
      kettle: { machine: KettleModel }
      shown: { constant: { state2: { message: half } } }
      other: { constant: hot }
    """

  private func problem(
    _ node: String, of topology: TopologyHarness
  ) async throws -> TopologyClientError {
    try await #require(throws: TopologyClientError.self) {
      _ = try await Example(node, of: topology.client)
    }
  }

  @Test("A remote model of a missing node, or of a node of another type, fails with the reason")
  func strangers() async throws {
    try await withTopology(yaml: Self.text) { topology in
      #expect(
        try await problem("exampel", of: topology)
          == .unknownNode("exampel", known: ["example", "kettle", "shown", "other"]))
      #expect(
        try await problem("kettle", of: topology)
          == .otherType(
            "kettle",
            "machine 'KettleModel' has the state 'off', which ExampleState does not have; it has "
              + "'state1', 'state2', 'state3'"))
      guard case .otherType("other", let reason) = try await problem("other", of: topology) else {
        return #expect(Bool(false))
      }
      #expect(reason.contains("ExampleState"), "\(reason)")
      typealias Mistaken = RemoteModel<ExampleState, Heater.Event>
      let error = try await #require(throws: TopologyClientError.self) {
        _ = try await Mistaken("example", of: topology.client)
      }
      guard case .otherType("example", let wording) = error else {
        return #expect(Bool(false), "\(error)")
      }
      #expect(wording.contains("machine 'ExampleModel'"), "\(wording)")
    }
  }

  @Test("A constant node is shown, and an event to the constant is reported as an error")
  func constant() async throws {
    try await withTopology(yaml: Self.text) { topology in
      let model = try await Example("shown", of: topology.client)
      #expect(model.state == .state2(message: "half"))
      model.eventA()
      for await problem in model.problemDidChange where problem != nil {
        #expect(
          problem?.description.contains(TopologyClientError.constantProblem) == true, "\(problem)")
        break
      }
    }
  }

  @Test("The model of a stopped node keeps the last state, and new events fail with 'does not run'")
  func stopped() async throws {
    try await withTopology(yaml: Self.text) { topology in
      let model = try await Example("example", of: topology.client)
      try await model.send(.eventA, resumeWhen: .state3(message: ""))
      try await topology.client.stop(["example"])
      #expect(model.state == .state3(message: "start, done"))
      let error = try await #require(throws: TopologyClientError.self) {
        try await model.send(.eventB(param: 1))
      }
      guard case .nodeDown("example", _) = error else { return #expect(Bool(false), "\(error)") }
      #expect(model.problem == error)
      guard case .nodeDown = try await problem("example", of: topology) else {
        return #expect(Bool(false))
      }
      let view = await ViewState(model)
      guard case .refused(.thrown(let text)) = await view.send(.eventA) else {
        return #expect(Bool(false))
      }
      #expect(text.contains("node 'example'"), "\(text)")
      try await topology.client.start(["example"])
      #expect(
        try await model.send(.eventB(param: 1), resumeWhen: .state1(message: ""))
          == .accepted(.state1(message: "1")))
      #expect(model.problem == nil)
    }
  }

  @Test("A node that is renamed or changes its type is reported as an error")
  func renamed() async throws {
    let before = """
      topology: ward
      program: nodes
      nodes:
        example: { machine: ExampleModel, durability: none }
        other: { machine: ExampleModel, durability: none }
      """
    let after = """
      topology: ward
      program: nodes
      nodes:
        sample: { machine: ExampleModel, durability: none }
        other: { machine: KettleModel, durability: none }
      """
    try await DetachedTopology.with(before) { ward in
      let client = try ward.client()
      defer { client.close() }
      let model = try await Example("example", of: client)
      let other = try await Example("other", of: client)
      try ward.write(after)
      let program = try ward.tool.start(["apply", "ward.yaml"])
      let applied = try await ward.tool.result(of: program, within: .seconds(60))
      #expect(applied.code == 0, "\(applied)")
      let error = try await #require(throws: TopologyClientError.self) {
        try await model.send(.eventA)
      }
      guard case .unknownNode("example", let known) = error else {
        return #expect(Bool(false), "\(error)")
      }
      #expect(Set(known) == ["sample", "other"])
      #expect(model.state == .state1(message: "start"))
      for await problem in other.problemDidChange where problem != nil {
        guard case .otherType("other", _)? = problem else {
          return #expect(Bool(false), "\(String(describing: problem))")
        }
        break
      }
      #expect(other.state == .state1(message: "start"))
    }
  }
}
