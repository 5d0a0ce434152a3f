import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Faults at each row of the protocol", .timed, .enabled(if: RecordedNodes.arePossible))
struct ProtocolFaultTests {
  @Test(
    "a participant that dies, stands still or is cut off leaves all moved or none, as was told",
    arguments: ProtocolFault.ofParticipants)
  func participant(fault: ProtocolFault) async throws { try await Self.strike(fault) }

  @Test(
    "a coordinator that dies, stands still or is cut off leaves all moved or none, as was told",
    arguments: ProtocolFault.ofCoordinators)
  func coordinator(fault: ProtocolFault) async throws { try await Self.strike(fault) }

  @Test("every failpoint of the protocol is struck by every kind of fault")
  func complete() {
    let faults = ProtocolFault.ofParticipants + ProtocolFault.ofCoordinators
    for point in Failpoint.allCases
    // Only a transition that takes its time gets to this one: `PromisingModelTests` strike it.
    where point.isOfSynchronizedEvents && point != .evaluateAfter {
      let kinds = faults.filter { $0.point == point }.map(\.kind)
      #expect(Set(kinds) == Set(ProtocolFault.Kind.allCases), "\(point)")
    }
  }

  private static func strike(_ fault: ProtocolFault) async throws {
    let environment = [FailpointCounter.rulesVariable: fault.rules]
    let pair = Parties.pair(environment: environment, within: fault.host)
    try await withTopology(pair) { topology in
      if fault.path == .unwilling { try await topology.send("right", Party.Event.disagree) }
      let reply = try await meet(topology, under: fault)
      switch (fault.told, reply) {
      case (.committed, .committed), (.either, .committed): break
      case (.notTaken, .refused), (.notTaken, .busy), (.notTaken, .unavailable),
        (.either, .refused), (.either, .busy), (.either, .unavailable):
        break
      default: Issue.record("the caller was told \(reply)")
      }
      if fault.path == .unwilling { try await topology.send("right", Party.Event.agree) }
      // Nothing stays locked.
      let last = try await topology.meet(mode: .await(.seconds(60)))
      #expect(last.isCommitted, "\(last)")
      try await topology.expectMet(reply.isCommitted ? 2 : 1)
    }
  }

  /// Asks for the event, lets the fault strike, and returns what the caller is told.
  private static func meet(
    _ topology: TopologyHarness, under fault: ProtocolFault
  ) async throws -> SynchronizedReply {
    async let reply = topology.meet()
    try await topology.expectLog(
      fault.node, contains: "failpoint \(fault.point.rawValue): \(fault.kind.rawValue)")
    guard fault.kind == .stop else { return try await reply }
    switch fault.hold {
    case .nothing: break
    case .answer: _ = try await reply
    case .doubt(let participant):
      try await topology.expectLog(participant, contains: "is in doubt after a silence")
    }
    try await topology.resume(fault.node)
    return try await reply
  }

  @Test(
    "what comes to a participant that has promised waits for the end, whatever strikes it",
    arguments: ProtocolFault.Kind.allCases)
  func queued(kind: ProtocolFault.Kind) async throws {
    var rules = "pair:commit.before=stop@1/1"
    if kind == .cut { rules += ",left:query.sent=cut@2/1" }
    let environment = [FailpointCounter.rulesVariable: rules]
    try await withTopology(Parties.pair(environment: environment)) { topology in
      async let reply = topology.meet()
      try await topology.expectLog("left", contains: "is in doubt after a silence")
      async let step = topology.send("left", Party.Event.step)
      switch kind {
      case .crash:
        try await topology.kill("left")
        try await topology.expectLog("left", contains: "is in doubt after a restart")
      case .cut: try await topology.expectLog("left", contains: "failpoint query.sent: cut")
      case .stop:
        try await topology.pause("left")
        try await topology.resume("left")
      }
      #expect(try await topology.party("left") == .willing(met: 0, steps: 0))
      try await topology.resume("pair")
      #expect(try await reply.isCommitted)
      let state = try JSONValue(encoding: Party.State.willing(met: 1, steps: 1))
      #expect(try await step == .moved(version: 2, state: state))
    }
  }
}
