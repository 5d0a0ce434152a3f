import PipeMachines
import PipeNode
import PipeRuntimeTestKit
import TestTraits
import Testing

/// A model that counts the events it has joined, both in its state and in a variable outside of its
/// state.
private actor Guest: HostableModel {
  enum State: MachineState, StateProtocol, Hashable {
    case sitting(joined: Int)
    case standing(joined: Int)

    var isStable: Bool { if case .sitting = self { true } else { false } }
  }

  enum Event: MachineEvent, Hashable {
    /// Joins in the manner given for the model's seat. With `nil`, the model joins at once.
    case join(left: Manner?, right: Manner?)
    /// An event like `join` that is not declared to be self-contained.
    case barge
    /// Enters a state that shows the count.
    case look
  }

  enum Manner: Codable, Hashable, Sendable {
    /// Never returns, not even when it is cancelled.
    case hangs
    case refuses
    /// Counts, and stays in its state.
    case hides
  }

  struct Parameters: MachineParameters {
    var isLeft = true
    init() {}
    init(isLeft: Bool) { self.isLeft = isLeft }
  }

  struct Refused: Error {}

  private let subject: ConcurrentValueSubject<State>
  private let isLeft: Bool
  private var joined: Int

  init(startsWith state: State, _ parameters: Parameters) throws {
    subject = try ConcurrentValueSubject(startsWith: state)
    isLeft = parameters.isLeft
    if case .sitting(let joined) = state { self.joined = joined } else { joined = 0 }
  }

  static func initialState(_ parameters: Parameters) -> State { .sitting(joined: 0) }

  static var selfContained: SelfContainedEvents<Event> {
    .events(OneOf { Event.join(left:right:) }, within: .seconds(600))
  }

  nonisolated var state: State { subject.state }
  nonisolated var stateDidChange: StatePublisher<State> { subject.eraseToAnyPublisher() }

  func take(_ event: Event) async throws {
    switch event {
    case .look: subject.send(.sitting(joined: joined))
    case .barge: joined += 1
    case .join(let left, let right):
      joined += 1
      switch isLeft ? left : right {
      case .hangs:
        subject.send(.standing(joined: joined))
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
      case .refuses: throw Refused()
      case .hides: break
      case nil:
        subject.send(.standing(joined: joined))
        await Task.yield()
        subject.send(.sitting(joined: joined))
      }
    }
  }
}

@Suite("Models in an in-process composite", .stallLimit(.seconds(60)))
struct AsynchronousRunTests {
  private let left = CompositeComponent("left", stateMachine: Self.machine(isLeft: true))
  private let right = CompositeComponent("right", stateMachine: Self.machine(isLeft: false))

  private static func machine(isLeft: Bool) -> StateMachine<Guest.State, Guest.Event, Never> {
    ModelMachine<Guest>.stateMachine(Guest.Parameters(isLeft: isLeft))
  }

  private func table() throws -> AsyncCompositeSequence<(Guest.State, Guest.State)> {
    try AsyncCompositeSequence("table", left, right, synchronize: ["join", "barge"])
  }

  @Test("A synchronized event changes both models' states at once, without intermediate states")
  func joined() async throws {
    let table = try table()
    let states = table.makeAsyncIterator()
    _ = await states.next()
    #expect(try await table.synchronizedEvent(Guest.Event.join(left: nil, right: nil)).isCommitted)
    let next = try #require(await states.next())
    #expect(next == (.sitting(joined: 1), .sitting(joined: 1)))
    // Their counters continue from there.
    #expect(try await table.send(.look, to: left) == .accepted(.sitting(joined: 1)))
  }

  @Test("If one model refuses an event, the other model keeps its state and its hidden data")
  func aborted() async throws {
    let table = try table()
    for manner in [Guest.Manner?.none, .hides] {
      let reply = try await table.synchronizedEvent(
        Guest.Event.join(left: manner, right: .refuses))
      guard case .refused(let refusals) = reply else {
        Issue.record("\(reply)")
        return
      }
      #expect(refusals.map(\.participant) == ["right"])
      #expect(refusals.map(\.reason) == [.thrown("Refused()")])
      #expect(table.state == (.sitting(joined: 0), .sitting(joined: 0)))
      #expect(try await table.send(.look, to: left) == .accepted(.sitting(joined: 0)))
      #expect(try await table.send(.look, to: right) == .accepted(.sitting(joined: 0)))
    }
  }

  @Test("A model that does not answer in time refuses the event, and no participant stays locked")
  func overdue() async throws {
    try await withManualClock { clock in
      let table = try table()
      async let reply = table.synchronizedEvent(Guest.Event.join(left: .hangs, right: .hangs))
      await clock.waitForSleepers(2)
      async let look = table.send(.look, to: left)
      await clock.advance(by: .seconds(600))
      guard case .refused(let refusals) = try await reply else {
        Issue.record("not refused")
        return
      }
      #expect(refusals.map(\.reason) == [.timedOut])
      #expect(try await look == .accepted(.sitting(joined: 0)))
      #expect(try await table.send(.look, to: right) == .accepted(.sitting(joined: 0)))
    }
  }

  @Test("An event whose asynchronous transition is not declared self-contained is refused at once")
  func unstated() async throws {
    let table = try table()
    guard case .refused(let refusals) = try await table.synchronizedEvent(Guest.Event.barge)
    else {
      Issue.record("not refused")
      return
    }
    #expect(refusals.map(\.reason) == [.asynchronous, .asynchronous])
    #expect(try await table.send(.look, to: left) == .accepted(.sitting(joined: 0)))
  }
}
