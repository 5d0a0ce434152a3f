import PipeMachines
import Synchronization
import TestTraits
import Testing

@Suite("A composite under concurrent load", .stallLimit(.seconds(60)))
struct CompositeLoadTests {
  private final class Flag: Sendable {
    private let value = Mutex(false)
    var isSet: Bool { value.withLock { $0 } }
    func set() { value.withLock { $0 = true } }
  }

  @Test("No reader sees a state in which only some components have taken a synchronized event")
  func noGlitches() async throws {
    let left = Pair.component("left")
    let right = Pair.component("right")
    let pair = try AsyncCompositeSequence("pair", left, right, synchronize: Pair.synchronize)
    let rounds = 300
    let end = Pair.State.open(joint: 3 * rounds, own: rounds)
    let isOver = Flag()
    // Subscribes before anything happens.
    let (ready, isReady) = AsyncStream.makeStream(of: Void.self)
    let streaming = Task {
      let states = pair.makeAsyncIterator()
      isReady.yield()
      var steps = 0
      var last = 0
      while let (left, right) = await states.next() {
        #expect(left.joint == right.joint)
        #expect(left.joint >= last)
        last = left.joint
        if left == end && right == end { break }
        steps += 1
      }
      return steps
    }
    for await _ in ready { break }
    let reading = Task {
      var reads = 0
      while !isOver.isSet {
        let (left, right) = pair.state
        #expect(left.joint == right.joint)
        reads += 1
        await Task.yield()
      }
      return reads
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<3 {
        group.addTask {
          for _ in 0..<rounds { try await pair.synchronizedEvent(Pair.Event.joint, .await(nil)) }
        }
      }
      for component in [left, right] {
        group.addTask { for _ in 0..<rounds { try await pair.send(.own, to: component) } }
      }
      try await group.waitForAll()
    }
    isOver.set()
    #expect(await reading.value > 0)
    #expect(pair.state == (end, end))
    // The initial state, and one state for each event before the last.
    #expect(await streaming.value == 3 * rounds + 2 * rounds)
  }

  @Test("A slow reader makes the composite wait and misses no state")
  func slowReader() async throws {
    let left = Pair.component("left")
    let right = Pair.component("right")
    let pair = try AsyncCompositeSequence("pair", left, right, synchronize: Pair.synchronize)
    let states = pair.makeAsyncIterator()
    let sending = Task {
      for _ in 0..<3_000 { try await pair.synchronizedEvent(Pair.Event.joint, .await(nil)) }
    }
    for number in 0...3_000 {
      let state = await states.next()
      #expect(state?.1.joint == number)
      if state?.1.joint != number { return }
    }
    try await sending.value
  }

  @Test("Concurrent philosophers all eat, and every state they reach is a state of the product")
  func philosophers() async throws {
    let count = 5
    let known = Set(try ThreeParty.product(count).explore().states)
    let names = (0..<count).map { "philosopher\($0)" }
    let table = try AsyncProductSequence(
      "table",
      names.map {
        AnyCompositeComponent(CompositeComponent($0, stateMachine: ThreeParty.philosopher))
      }
        + (0..<count).map {
          AnyCompositeComponent(CompositeComponent("fork\($0)", stateMachine: ThreeParty.fork))
        }, composites: ThreeParty.seats(count))
    let meals = 40
    let reading = Task {
      var seen = 0
      for await state in table {
        #expect(known.contains(state))
        seen += 1
      }
      return seen
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for seat in 0..<count {
        group.addTask {
          for _ in 0..<meals {
            for event in [ThreeParty.Event.take, .release] {
              let reply = try await table.synchronizedEvent(
                SynchronizedEvent(event), of: "seat\(seat)", .await(nil))
              #expect(reply.isCommitted)
            }
          }
        }
      }
      try await group.waitForAll()
    }
    table.finish()
    // The reader may have subscribed after the first states.
    #expect(await reading.value > count * meals)
  }
}
