import PipeMachines
import TestTraits
import Testing

@Suite("A composite of running machines", .stallLimit(.seconds(60)))
struct CompositeRunTests {
  private typealias State = Pair.State
  private typealias Event = Pair.Event

  private let left = Pair.component("left")
  private let right = Pair.component("right")

  private func pair() throws -> AsyncCompositeSequence<(Pair.State, Pair.State)> {
    try AsyncCompositeSequence("pair", left, right, synchronize: Pair.synchronize)
  }

  @Test("An event to one component changes only that component's part of the composite's state")
  func local() async throws {
    let pair = try pair()
    #expect(pair.state == (.open(joint: 0, own: 0), .open(joint: 0, own: 0)))
    #expect(try await pair.send(.own, to: right) == .accepted(.open(joint: 0, own: 1)))
    #expect(try await pair.send(.open, to: right) == .refused(.noTransition))
    #expect(pair.state == (.open(joint: 0, own: 0), .open(joint: 0, own: 1)))
  }

  @Test("All components take a synchronized event, and the reply has their versions")
  func committed() async throws {
    let pair = try pair()
    try await pair.send(.own, to: left)
    let reply = try await pair.synchronizedEvent(Event.add(number: 3))
    #expect(
      reply
        == .committed(TransactionID(epoch: 1, sequence: 1), versions: ["left": 2, "right": 1]))
    #expect(pair.state == (.open(joint: 3, own: 1), .open(joint: 3, own: 0)))
  }

  @Test(
    "If a component refuses a synchronized event, none takes it; the reply names the component")
  func refused() async throws {
    let pair = try pair()
    try await pair.send(.close, to: right)
    #expect(
      try await pair.synchronizedEvent(Event.joint)
        == .refused([
          BlockingParticipant(
            participant: "right", state: ["closed": ["joint": 0, "own": 0]], version: 1,
            reason: .noTransition)
        ]))
    try await pair.send(.open, to: right)
    guard case .refused(let refusals) = try await pair.synchronizedEvent(Event.add(number: -1))
    else { throw TestFailure() }
    #expect(refusals.map(\.participant) == ["left", "right"])
    #expect(refusals.map(\.reason) == [.guard, .guard])
    #expect(pair.state.0 == .open(joint: 0, own: 0))
  }

  private struct TestFailure: Error {}

  @Test("An event sent to the wrong target causes an error that says what is wrong")
  func routing() async throws {
    let pair = try pair()
    await #expect(throws: RoutingError.requiresComposite("joint", composite: "pair")) {
      try await pair.send(.joint, to: left)
    }
    await #expect(throws: RoutingError.notSynchronized("own", composite: "pair")) {
      try await pair.synchronizedEvent(Event.own)
    }
    await #expect(throws: RoutingError.unknownComponent("middle")) {
      try await pair.send(.own, to: Pair.component("middle"))
    }
    let written = try SynchronizedEvent(json: ["add": ["amount": 1]])
    await #expect(throws: RoutingError.self) {
      try await pair.product.synchronizedEvent(written, of: "pair")
    }
    #expect(pair.state.0 == .open(joint: 0, own: 0))
  }

  @Test("A waiting request ends with the step that enables its event")
  func awaits() async throws {
    let pair = try pair()
    try await pair.send(.close, to: right)
    let states = pair.makeAsyncIterator()
    async let reply = pair.synchronizedEvent(Event.joint, .await(nil))
    try await pair.send(.own, to: left)
    try await pair.send(.open, to: right)
    #expect(try await reply.isCommitted)
    #expect(pair.state.0.joint == 1)
    #expect(pair.state.1.joint == 1)
    _ = states
  }

  @Test("A request that waits is refused at its deadline with the reason, and has no later effect")
  func deadline() async throws {
    let pair = try pair()
    try await pair.send(.close, to: right)
    guard
      case .refused(let refusals) = try await pair.synchronizedEvent(
        Event.joint, .await(.milliseconds(1)))
    else { throw TestFailure() }
    #expect(refusals.map(\.participant) == ["right"])
    try await pair.send(.open, to: right)
    #expect(pair.state == (.open(joint: 0, own: 0), .open(joint: 0, own: 0)))
  }

  @Test("A waiting request ends when its task is cancelled")
  func cancelled() async throws {
    let pair = try pair()
    try await pair.send(.close, to: right)
    let task = Task { try await pair.synchronizedEvent(Event.joint, .await(nil)) }
    task.cancel()
    guard case .refused = try await task.value else { throw TestFailure() }
    try await pair.send(.open, to: right)
    #expect(pair.state.0.joint == 0)
  }

  @Test("No component changes before all asynchronous transitions are complete; other events wait")
  func asynchronous() async throws {
    let pair = try pair()
    let states = pair.makeAsyncIterator()
    async let slow = pair.synchronizedEvent(Event.slow)
    async let own = pair.send(.own, to: left)
    #expect(try await slow.isCommitted)
    guard case .accepted = try await own else { throw TestFailure() }
    var seen: [(Pair.State, Pair.State)] = []
    while seen.last?.0 != .open(joint: 1, own: 1), let state = await states.next() {
      seen.append(state)
    }
    #expect(seen.allSatisfy { $0.joint == $1.joint })
  }

  @Test("An effect's synchronized event waits until all components accept it")
  func effects() async throws {
    let runtime = Runtime<Pair.State, Pair.Event, Pair.Output>()
      .map(output: Pair.Output.isClosed, to: { .open })
    let raising = Runtime<Lift.Motor, Lift.MotorEvent, Lift.MotorOutput>()
      .map(
        output: Lift.MotorOutput.drive(to:), to: { floor in .emergencyStop(code: floor) })
    let motor = CompositeComponent("motor", stateMachine: Lift.motor, runtime: raising)
    let door = CompositeComponent("door", stateMachine: Lift.door)
    let lift = try AsyncCompositeSequence(
      "lift", door, motor, synchronize: ["open", "emergencyStop"])
    try await lift.synchronizedEvent(Lift.DoorEvent.open)
    // The open door refuses the stop of the motor's effect until the door is closed.
    try await lift.send(.go(to: 7), to: motor)
    #expect(!lift.isStable)
    #expect(lift.state == (.open(persons: 0), .moving(to: 7)))
    try await lift.send(.close, to: door)
    for await state in lift.states(as: LiftState.init(door:motor:)) where state == .stopped {
      break
    }
    #expect(lift.state == (.stopped, .stopped))

    let pair = try AsyncCompositeSequence(
      "pair", Pair.component("left", runtime: runtime), right, synchronize: Pair.synchronize)
    try await pair.send(.close, to: left)
    for await state in pair where state.0 == .open(joint: 0, own: 0) { break }
  }

  @Test("A cancelled effect withdraws its synchronized event")
  func cancelledEffects() async throws {
    let raising = Runtime<Lift.Motor, Lift.MotorEvent, Lift.MotorOutput>()
      .map(
        output: Lift.MotorOutput.drive(to:), to: { floor in .emergencyStop(code: floor) },
        strategy: .cancelWhenAnyState)
    let motor = CompositeComponent("motor", stateMachine: Lift.motor, runtime: raising)
    let door = CompositeComponent("door", stateMachine: Lift.door)
    let lift = try AsyncCompositeSequence(
      "lift", door, motor, synchronize: ["open", "emergencyStop"])
    try await lift.synchronizedEvent(Lift.DoorEvent.open)
    try await lift.send(.go(to: 7), to: motor)
    try await lift.send(.arrive, to: motor)
    try await lift.send(.close, to: door)
    #expect(try await lift.synchronizedEvent(Lift.DoorEvent.open).isCommitted)
    #expect(lift.state == (.open(persons: 0), .standing(floor: 7)))
  }

  @Test("Components of a composite can send each other events through pipes")
  func pipes() async throws {
    let pipe = EventPipe<Pair.Event>(capacity: 4)
    let sending = Runtime<Pair.State, Pair.Event, Pair.Output>()
      .connectAsSender(to: pipe, when: Pair.State.open(joint:own:), send: Pair.Event.own)
    let receiving = Runtime<Pair.State, Pair.Event, Pair.Output>().connectAsReceiver(to: pipe)
    let left = Pair.component("left", runtime: sending)
    let right = Pair.component("right", runtime: receiving)
    let pair = try AsyncCompositeSequence("pair", left, right, synchronize: Pair.synchronize)
    for _ in 0..<50 { try await pair.send(.own, to: left) }
    for _ in 0..<50 {
      #expect(try await pair.synchronizedEvent(Event.joint, .await(nil)).isCommitted)
    }
    // The entry into the initial state sent an event, too.
    for await state in pair where state.1 == .open(joint: 50, own: 101) { break }
    #expect(pair.state.0 == .open(joint: 50, own: 50))
  }

  @Test("A component ignores a synchronized event that arrives through the component's own pipe")
  func strayEvents() async throws {
    let pipe = EventPipe<Pair.Event>()
    let left = Pair.component("left", runtime: Runtime().connectAsReceiver(to: pipe))
    let pair = try AsyncCompositeSequence("pair", left, right, synchronize: Pair.synchronize)
    pipe.send(.joint)
    pipe.send(.own)
    for await state in pair where state.0 == .open(joint: 0, own: 1) { break }
    #expect(pair.state.1 == .open(joint: 0, own: 0))
  }

  @Test("A composite is stable when no effect, transition or event is pending")
  func stable() async throws {
    let (started, signal) = AsyncStream.makeStream(of: Void.self)
    let (release, end) = AsyncStream.makeStream(of: Void.self)
    let runtime = Runtime<Pair.State, Pair.Event, Pair.Output>()
      .map(
        output: Pair.Output.isClosed,
        to: { () async -> Pair.Event? in
          signal.yield()
          for await _ in release { break }
          return nil
        })
    let left = Pair.component("left", runtime: runtime)
    let pair = try AsyncCompositeSequence("pair", left, right, synchronize: Pair.synchronize)
    #expect(pair.isStable)
    try await pair.send(.close, to: left)
    for await _ in started { break }
    #expect(!pair.isStable)
    end.yield()
    await yieldUntil(pair.isStable)
    #expect(pair.state.0 == .closed(joint: 0, own: 0))
  }

  @Test("Finishing a composite ends its readers and answers waiting requests")
  func finish() async throws {
    let pair = try pair()
    try await pair.send(.close, to: left)
    let waiting = Task { try await pair.synchronizedEvent(Event.joint, .await(nil)) }
    let reading = Task {
      var count = 0
      for await _ in pair.product { count += 1 }
      return count
    }
    while try await pair.send(.own, to: right) == .accepted(.open(joint: 0, own: 1)) {}
    pair.finish()
    #expect(await reading.value > 0)
    let reply = try await waiting.value
    #expect(reply == .unavailable("pair"))
    #expect(try await pair.send(.own, to: right) == .finished)
    #expect(try await pair.synchronizedEvent(Event.joint) == .unavailable("pair"))
  }
}
