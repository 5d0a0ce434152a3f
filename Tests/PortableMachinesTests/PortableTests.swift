import PipeMachines
import Testing

@MainActor
@Suite("The portable module without the other modules")
struct PortableTests {
  @Test("A machine runs its effects in process and sends events to another machine through a pipe")
  func machine() async {
    let pipe = EventPipe<Porter.Event>()
    let bell = AsyncStateMachineSequence(
      stateMachine: Doorbell.stateMachine(NoParameters()),
      runtime: Doorbell.runtime(NoParameters(), Ports())
        .connectAsSender(to: pipe, when: Doorbell.State.ringing(count:), send: Porter.Event.call))
    let porter = AsyncStateMachineSequence(
      stateMachine: Porter.machine,
      runtime: Runtime<Porter.State, Porter.Event, Never>().connectAsReceiver(to: pipe))
    let calls = porter.makeAsyncIterator()
    #expect(await calls.next() == .waiting)

    let states = bell.makeAsyncIterator()
    #expect(await states.next() == .quiet)
    await bell.send(.press)
    #expect(await states.next() == .ringing(count: 1))
    #expect(await states.next() == .quiet)
    #expect(await calls.next() == .called(times: 1))
  }

  @Test("A binding sets a model's state, and the model reports each state")
  func model() async {
    let model = ConcurrentValueStateMachine("one")
    var states = model.stateDidChange.makeAsyncIterator()
    #expect(await states.next() == "one")
    model.binding().wrappedValue = "two"
    #expect(await states.next() == "two")
    #expect(model.state == "two")
  }

  @Test("A stack of screens refuses to pop its root")
  func navigation() throws {
    enum Screen: String, RouteType { case list, item }
    var stack = RouteStack(root: Screen.list)
    try stack.push(.item)
    #expect(stack.path == [.list, .item])
    try stack.pop()
    #expect(throws: NavigationError.atRoot) { try stack.pop() }
  }

  @Test("A machine of the portable module cannot run as a node, and the error says what to import")
  func noNode() {
    struct Nobody: _Hosting {}
    let error = #expect(throws: (any Error).self) { _ = try Doorbell._host(Nobody()) }
    #expect(error.map { "\($0)" }?.contains("import PipeRuntime") == true)
  }
}
