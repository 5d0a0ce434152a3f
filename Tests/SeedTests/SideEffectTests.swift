import PipeRuntime
import Testing

private struct Jammed: Error {}

private enum DoorEvent: DSLCompatible, Equatable, FailureEvent {
  case locked
  case pressed(Int)
  case jammed(String)

  static func failure(_ error: any Error) -> DoorEvent { .jammed("\(error)") }
}

private enum DoorState: DSLCompatible, Equatable { case idle, moving(Int), locked, jammed(String) }
private enum DoorOutput: DSLCompatible { case move(Int), ring }

private func door() -> StateMachine<DoorState, DoorEvent, DoorOutput> {
  StateMachine(initial: .idle) {
    When(state: .idle) {
      Execute(output: .ring)
    }
    When(state: DoorState.moving) { speed in
      Execute(output: .move(speed))
    } transitions: { speed in
      On(event: .locked) { Transition(to: .locked) }
    }
    When(
      states: OneOf {
        DoorState.idle
        DoorState.moving
      }
    ) { _ in
      Execute.noOutput
    } transitions: {
      On(event: DoorEvent.pressed) { speed in Transition(to: .moving(speed)) }
      On(event: DoorEvent.jammed) { text in Transition(to: .jammed(text)) }
    }
  }
}

/// A sequence of one event that then throws.
private struct Failing: AsyncSequence, Sendable {
  typealias Element = DoorEvent
  let first: DoorEvent

  struct AsyncIterator: AsyncIteratorProtocol {
    var first: DoorEvent?

    mutating func next() async throws -> DoorEvent? {
      defer { first = nil }
      guard let first else { throw Jammed() }
      return first
    }
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(first: first) }
}

@Suite("Side effects beyond the examples of the original document")
struct SideEffectTests {
  private typealias Door = Runtime<DoorState, DoorEvent, DoorOutput>

  /// Runs the door, presses its button, and returns the states until the door is locked or jammed.
  private func states(_ runtime: Door, pressing speed: Int? = nil) async -> [DoorState] {
    let sequence = AsyncStateMachineSequence(stateMachine: door(), runtime: runtime)
    if let speed { await sequence.send(.pressed(speed)) }
    var states: [DoorState] = []
    for await state in sequence {
      states.append(state)
      switch state {
      case .locked, .jammed: return states
      case .idle, .moving: break
      }
    }
    return states
  }

  @Test("A throwing sequence requires no 'catch' if its events conform to FailureEvent")
  func throwingSequence() async {
    let ring = Door().map(output: .ring, to: { Failing(first: .pressed(7)) })
    #expect(await states(ring) == [.idle, .moving(7), .jammed("Jammed()")])

    let move = Door().map(
      output: DoorOutput.move, to: { speed in Failing(first: .pressed(speed + 1)) })
    // Each entry into `moving` starts the effect again, until one of them fails.
    let moved = await states(move, pressing: 1)
    #expect(moved.prefix(3) == [.idle, .moving(1), .moving(2)])
    #expect(moved.last == .jammed("Jammed()"))
  }

  @Test("A throwing function requires no 'catch' if its events conform to FailureEvent")
  func throwingFunction() async {
    @Sendable func lock(_ speed: Int) async throws -> DoorEvent? {
      if speed > 5 { throw Jammed() }
      return .locked
    }
    let runtime = Door().map(output: DoorOutput.move, to: lock)
    #expect(await states(runtime, pressing: 3) == [.idle, .moving(3), .locked])
    #expect(await states(runtime, pressing: 9) == [.idle, .moving(9), .jammed("Jammed()")])

    let ring = Door().map(output: .ring, to: { () async throws -> DoorEvent? in throw Jammed() })
    #expect(await states(ring) == [.idle, .jammed("Jammed()")])
  }

  @Test("If an output is mapped to two effects, the first effect is used")
  func mappedTwice() async {
    let runtime = Door()
      .map(output: DoorOutput.move, to: { _ in .locked })
      .map(output: DoorOutput.move, to: { _ in .jammed("the second") })
    #expect(await states(runtime, pressing: 3) == [.idle, .moving(3), .locked])
  }

  @Test("'inject' accepts functions with up to three parameters before up to six dependencies")
  func injected() async throws {
    func six(
      a: Int, b: Int, c: Int, d: String, e: Character, f: Double, g: Bool, h: [Int], i: Int?
    ) async -> String { "\(a)\(b)\(c)\(d)\(e)\(f)\(g)\(h)\(String(describing: i))" }
    func failing(a: Int, d: Int, e: Int, f: Int, g: Int, h: Int) async throws -> Int {
      if a < 0 { throw Jammed() }
      return a + 10 * d + 100 * e + 1_000 * f + 10_000 * g + 100_000 * h
    }
    func four(d: Int, e: Int, f: Int, g: Int) async -> [Int] { [d, e, f, g] }

    let all = inject(deps: "d", "e", 1.5, true, [2], nil, in: six)
    #expect(await all(1, 2, 3) == "123de1.5true[2]nil")
    let five = inject(deps: 2, 3, 4, 5, 6, in: failing)
    #expect(try await five(1) == 654_321)
    await #expect(throws: Jammed.self) { try await five(-1) }
    #expect(await inject(deps: 1, 2, 3, 4, in: four)() == [1, 2, 3, 4])
  }

  @Test("Middleware runs at its given priority and receives states and events in order")
  func middleware() async {
    let lines = AsyncStream.makeStream(of: String.self)
    let priorities = AsyncStream.makeStream(of: TaskPriority.self)
    let runtime = Door()
      .map(output: DoorOutput.move, to: { speed in speed < 4 ? .pressed(speed + 1) : .locked })
      .register(
        middleware: { (state: DoorState) in lines.continuation.yield("\(state)") }, priority: .high
      )
      .register(
        middleware: { (event: DoorEvent) async in
          await Task.yield()
          lines.continuation.yield("\(event)")
        }, priority: .high
      )
      .register(
        middleware: { (state: DoorState) async in
          priorities.continuation.yield(Task.currentPriority)
          if state == .locked { priorities.continuation.finish() }
        }, priority: .background)
    _ = await states(runtime, pressing: 3)
    for await priority in priorities.stream { #expect(priority == .background) }
    var seen: [String] = []
    for await line in lines.stream {
      seen.append(line)
      if seen.count == 7 { break }
    }
    #expect(
      seen == [
        "idle", "pressed(3)", "moving(3)", "pressed(4)", "moving(4)", "locked", "locked",
      ])
  }
}
