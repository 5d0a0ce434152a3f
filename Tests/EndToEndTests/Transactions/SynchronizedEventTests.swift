import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Synchronized events across processes", .timed)
struct SynchronizedEventTests {
  @Test(
    "Both participants take a synchronized event, and the composite's state changes once",
    arguments: Durability.allCases)
  func committed(durability: Durability) async throws {
    try await withTopology(Parties.pair(durability: durability)) { topology in
      for count in 1...3 {
        guard case .committed(_, let versions) = try await topology.meet() else {
          throw UnexpectedResult("the event was not committed")
        }
        #expect(versions == ["left": UInt64(count), "right": UInt64(count)])
      }
      let met = Party.State.willing(met: 3, steps: 0)
      try await topology.expect("left", met)
      try await topology.expect("right", met)
      let shown = topology.recordedStates(of: "pair").map(\.state)
      let expected: [JSONValue] = try (0...3).map { count in
        let state = try JSONValue(encoding: Party.State.willing(met: count, steps: 0))
        return ["left": state, "right": state]
      }
      _ = try await topology.expectStatus(of: "pair", "the last state") {
        $0.kind == .composite && $0.status?.state == expected[3]
      }
      #expect(shown.allSatisfy(expected.contains))
    }
  }

  @Test("If one participant refuses, no participant takes the event, and the reply has the reason")
  func refused() async throws {
    try await withTopology(Parties.pair()) { topology in
      try await topology.send("right", Party.Event.disagree)
      let state = try JSONValue(encoding: Party.State.unwilling(met: 0, steps: 0))
      #expect(
        try await topology.meet()
          == .refused([
            BlockingParticipant(
              participant: "right", state: state, version: 1, reason: .noTransition)
          ]))
      #expect(try await topology.party("left") == .willing(met: 0, steps: 0))
    }
  }

  @Test(
    "If a participant does not run, no participant takes the event, and a later request commits")
  func unavailable() async throws {
    try await withTopology(Parties.pair()) { topology in
      try await topology.stop("right")
      _ = try await poll(within: .seconds(10)) {
        try await topology.meet() == .unavailable("right") ? true : nil
      }
      #expect(try await topology.party("left").met == 0)
      try await topology.start("right")
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
    }
  }

  @Test("A request to a composite that does not run gets the reply 'unavailable'")
  func down() async throws {
    try await withTopology(Parties.pair()) { topology in
      try await topology.stop("pair")
      #expect(try await topology.meet() == .unavailable("pair"))
      try await topology.start("pair")
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
    }
  }

  @Test("A request for locked participants gets the reply 'busy' after a timeout")
  func busy() async throws {
    try await withTopology(Parties.pair()) { topology in
      #expect(try await topology.meet().isCommitted)
      try await topology.expectMet(1)
      try await topology.pause("right")
      async let first = topology.meet()
      async let second = topology.meet()
      let replies = try await [first, second]
      #expect(replies.contains(.unavailable("right")))
      #expect(replies.contains(.busy(["left", "right"])))
      try await topology.resume("right")
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
      try await topology.expectMet(2)
    }
  }

  @Test("A waiting request commits when its event is enabled, or is refused at its deadline")
  func waits() async throws {
    try await withTopology(Parties.pair()) { topology in
      try await topology.send("right", Party.Event.disagree)
      let refused = try await topology.meet(mode: .await(.milliseconds(200)))
      guard case .refused(let withheld) = refused else {
        throw UnexpectedResult("it was refused at the deadline, not \(refused)")
      }
      #expect(withheld.map(\.participant) == ["right"])
      async let waiting = topology.meet(mode: .await(.seconds(60)))
      // The event was refused at least once.
      try await topology.expectStatus(of: "right", "a second refusal") { _ in true }
      try await topology.send("right", Party.Event.agree)
      #expect(try await waiting.isCommitted)
    }
  }

  @Test("Each participant takes a broadcast event independently")
  func broadcast() async throws {
    try await withTopology(Parties.pair()) { topology in
      try await topology.send("right", Party.Event.disagree)
      let results = try await topology.client.broadcast("pair", json: "meet")
      #expect(results["left"] == .accepted(version: 1))
      guard case .refused(let withheld) = results["right"] else {
        throw UnexpectedResult("the right one refused, not \(results)")
      }
      #expect(withheld.version == 1)
      try await topology.expect("left", Party.State.willing(met: 1, steps: 0))
    }
  }

  @Test("A synchronized event sent directly to a participant is refused")
  func direct() async throws {
    try await withTopology(Parties.pair()) { topology in
      await #expect(
        throws: TopologyClientError.invalidEvent(
          "left", "\(RoutingError.requiresComposite("meet", composite: "pair"))")
      ) { try await topology.send("left", Party.Event.meet) }
      await #expect(throws: TopologyClientError.self) {
        try await topology.client.synchronize("pair", Party.Event.step)
      }
    }
  }

  @Test("The outcome of a transaction can be queried later")
  func ask() async throws {
    try await withTopology(Parties.pair()) { topology in
      let reply = try await topology.meet()
      guard case .committed(let transaction, _) = reply else {
        throw UnexpectedResult("it was committed, not \(reply)")
      }
      try await topology.kill("pair")
      _ = try await poll(within: .seconds(10)) {
        (try? await topology.client.ask("pair", about: transaction)) == reply ? true : nil
      }
      let never = TransactionID(epoch: 1_000, sequence: 1)
      #expect(try await topology.client.ask("pair", about: never) == .unknown(never))
    }
  }

  @Test("A composite without a journal answers 'unknown' for transactions before its start")
  func askWithoutJournal() async throws {
    try await withTopology(Parties.pair(durability: .volatile)) { topology in
      guard case .committed(let transaction, _) = try await topology.meet() else {
        throw UnexpectedResult("it was not committed")
      }
      try await topology.kill("pair")
      _ = try await poll(within: .seconds(10)) {
        let reply = try? await topology.client.ask("pair", about: transaction)
        if let reply { #expect(reply == .unknown(transaction)) }
        return reply
      }
    }
  }

  @Test("A composite under load never shows a state where only one participant has taken an event")
  func noTornState() async throws {
    try await withTopology(Parties.pair()) { topology in
      let stream = try await topology.states(of: ["pair"])
      let rounds = 150
      let watching = Task {
        var last = (met: -1, left: -1, right: -1)
        for await change in stream {
          let left = try change.state["left"]!.decode(Party.State.self)
          let right = try change.state["right"]!.decode(Party.State.self)
          #expect(left.met == right.met)
          #expect(left.met >= last.met)
          last.met = left.met
          if left.met == rounds { return }
        }
      }
      try await withThrowingTaskGroup { group in
        for name in ["left", "right"] {
          group.addTask {
            for _ in 0..<300 { try await topology.send(name, Party.Event.step) }
          }
        }
        group.addTask {
          for _ in 0..<rounds {
            let reply = try await topology.meet(mode: .await(.seconds(60)))
            #expect(reply.isCommitted, "\(reply)")
          }
        }
        try await group.waitForAll()
      }
      try await watching.value
      try await topology.expect("left", Party.State.willing(met: rounds, steps: 300))
      try await topology.expect("right", Party.State.willing(met: rounds, steps: 300))
    }
  }
}
