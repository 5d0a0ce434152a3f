import PipeMachines
import PipeNode
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite(
  "Models that evaluate an event tentatively", .stallLimit(.seconds(60)))
struct TentativeModelTests {
  private typealias Event = Sleeper.Event

  /// A composite of two nodes, each with a ``Bed``.
  private struct Room {
    let left = Bed.make()
    let right = Bed.make()
    let beds: [CompositeComponent<Sleeper.State, Sleeper.Event>]
    let states: AsyncCompositeSequence<(Sleeper.State, Sleeper.State)>

    init() throws {
      beds = [(left, true), (right, false)].map { bed, isLeft in
        let parameters = Sleeper.Parameters(bed: bed, isLeft: isLeft)
        return CompositeComponent(
          isLeft ? "left" : "right",
          stateMachine: ModelMachine<Sleeper>.stateMachine(parameters),
          runtime: ModelMachine<Sleeper>.runtime(parameters, Ports()))
      }
      states = try AsyncCompositeSequence("beds", beds[0], beds[1], synchronize: ["meet"])
    }

    func meet(
      left: Sleeper.Manner = .gladly, right: Sleeper.Manner = .gladly,
      _ mode: SynchronizedMode = .try
    ) async throws -> SynchronizedReply {
      try await states.synchronizedEvent(Event.meet(left: left, right: right), mode)
    }

    /// Waits for the models of both machines, before any event.
    func awaitModels() async throws {
      for bed in [left, right] {
        _ = try await Bed.first(bed) { $0.models.isEmpty ? nil : true }
      }
    }
  }

  private static func expectRefusal(
    _ reply: SynchronizedReply, by participant: String, _ reason: Refusal
  ) {
    guard case .refused(let refusals) = reply else {
      Issue.record("\(reply)")
      return
    }
    #expect(refusals.map(\.participant) == [participant])
    #expect(refusals.map(\.reason) == [reason])
  }

  @Test("A model keeps its earlier changes when events are aborted")
  func gettingOn() async throws {
    let room = try Room()
    var last: SendOutcome<Sleeper.State>?
    for _ in 0..<3 {
      last = try await room.states.send(.nudge, to: room.beds[0])
      Self.expectRefusal(
        try await room.meet(right: .refusing), by: "right", .thrown("Refused()"))
    }
    #expect(last == .accepted(.awake(bed: room.left, met: 0)))
  }

  @Test("If an event is aborted, the model's own change during the evaluation takes effect once")
  func announcedBeforeAbort() async throws {
    let room = try Room()
    try await room.awaitModels()
    async let reply = room.meet(right: .hangingAndRefusing)
    _ = try await Bed.first(room.right) { $0.hanging.isEmpty ? nil : true }
    Bed[room.left].models[0].send(.awake(bed: room.left, met: 0))
    try await Bed.letGo(room.right)
    Self.expectRefusal(try await reply, by: "right", .thrown("Refused()"))
    for await (left, _) in room.states where left == .awake(bed: room.left, met: 0) { break }
    #expect(Bed[room.left].wokenByEvent == 0)
  }

  @Test("A change that a model has announced is dropped if the committed step does not include it")
  func announcedBeforeCommit() async throws {
    for _ in 0..<5 {
      let room = try Room()
      try await room.awaitModels()
      async let reply = room.meet(right: .hanging)
      _ = try await Bed.first(room.right) { $0.hanging.isEmpty ? nil : true }
      Bed[room.left].models[0].send(.awake(bed: room.left, met: 0))
      _ = try await Bed.first(room.left) { $0.announcements > 0 ? true : nil }
      try await Bed.letGo(room.right)
      #expect(try await reply.isCommitted)
      #expect(room.states.state.0 == .asleep(bed: room.left, met: 1))
      // A further announcement of the model would come after the dropped one.
      let model = try #require(Bed[room.left].models.last)
      model.send(.awake(bed: room.left, met: 1))
      for await (left, _) in room.states where left == .awake(bed: room.left, met: 1) { break }
      #expect(Bed[room.left].wokenByEvent == 0)
    }
  }

  @Test("If an event is aborted, the change that a model made after its vote is dropped")
  func promisedBeforeAbort() async throws {
    let room = try Room()
    try await room.awaitModels()
    async let reply = room.meet(right: .hangingAndRefusing)
    let promised = try await Bed.first(room.left) { bed in
      bed.models.first { $0.state.met == 1 }
    }
    promised.send(.awake(bed: room.left, met: 1))
    try await Bed.letGo(room.right)
    Self.expectRefusal(try await reply, by: "right", .thrown("Refused()"))
    let looked = try await room.states.send(.look, to: room.beds[0])
    #expect(looked == .accepted(.asleep(bed: room.left, met: 0)))
    #expect(Bed[room.left].announcements == 0)
    #expect(Bed[room.left].wokenByEvent == 0)
  }

  @Test("If an event is committed, the change that a model made after its vote follows the event")
  func promisedBeforeCommit() async throws {
    let room = try Room()
    try await room.awaitModels()
    let states = room.states.makeAsyncIterator()
    async let reply = room.meet(right: .hanging)
    let promised = try await Bed.first(room.left) { bed in
      bed.models.first { $0.state.met == 1 }
    }
    promised.send(.awake(bed: room.left, met: 1))
    try await Bed.letGo(room.right)
    #expect(try await reply.isCommitted)
    var seen: [Sleeper.State] = []
    while seen.last != .awake(bed: room.left, met: 1), let next = await states.next() {
      if seen.last != next.0 { seen.append(next.0) }
    }
    #expect(
      seen == [
        .asleep(bed: room.left, met: 0), .asleep(bed: room.left, met: 1),
        .awake(bed: room.left, met: 1),
      ])
    #expect(Bed[room.left].wokenByEvent == 0)
  }

  @Test("A model's step includes all earlier changes that the model made by itself")
  func covered() async throws {
    let room = try Room()
    try await room.awaitModels()
    async let reply = room.meet(right: .hangingAndRefusing)
    _ = try await Bed.first(room.right) { $0.hanging.isEmpty ? nil : true }
    // Both wait until the event is known to be aborted.
    async let looked = room.states.send(.look, to: room.beds[0])
    Bed[room.left].models[0].send(.awake(bed: room.left, met: 0))
    try await Bed.letGo(room.right)
    _ = try await reply
    #expect(try await looked == .accepted(.awake(bed: room.left, met: 0)))
    #expect(Bed[room.left].wokenByEvent == 0)
  }

  @Test("A model runs at most four transitions that cannot be cancelled, and remains usable")
  func unreturned() async throws {
    try await withManualClock { clock in
      let room = try Room()
      try await room.awaitModels()
      for _ in 0..<4 {
        async let reply = room.meet(right: .hanging)
        await clock.waitForSleepers(2)
        await clock.advance(by: .seconds(600))
        Self.expectRefusal(try await reply, by: "right", .timedOut)
      }
      let made = Bed[room.right].models.count
      for _ in 0..<3 { Self.expectRefusal(try await room.meet(), by: "right", .timedOut) }
      #expect(Bed[room.right].models.count == made)
      #expect(Bed[room.right].hanging.count == 4)
      let looked = try await room.states.send(.look, to: room.beds[1])
      #expect(looked == .accepted(.asleep(bed: room.right, met: 0)))
      // A waiting event gets its turn when one of the transitions has ended.
      async let reply = room.meet(.await(nil))
      try await Bed.letGo(room.right, 4)
      #expect(try await reply.isCommitted)
      #expect(room.states.state.1 == .asleep(bed: room.right, met: 1))
    }
  }

  @Test("A transition that returns late does not affect a later attempt at the same event")
  func late() async throws {
    try await withManualClock { clock in
      let room = try Room()
      try await room.awaitModels()
      async let reply = room.meet(right: .hanging, .await(nil))
      await clock.waitForSleepers(2)
      await clock.advance(by: .seconds(600))
      let first = try await Bed.first(room.right) { $0.hanging.first }
      Bed.with(room.right) { $0.hanging = [] }
      // The step triggers another attempt at the event.
      try await room.states.send(.look, to: room.beds[1])
      _ = try await Bed.first(room.right) { $0.hanging.isEmpty ? nil : true }
      first.resume()
      await clock.advance(by: .zero)
      try await Bed.letGo(room.right)
      #expect(try await reply.isCommitted)
    }
  }
}
