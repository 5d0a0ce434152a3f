import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite(
  "Faults at each failpoint of the transaction protocol", .timed,
  .enabled(if: RecordedNodes.arePossible))
struct ProtocolFaultTests {
  @Test(
    "An event stays atomic and matches its reply when a participant crashes, hangs or disconnects",
    arguments: ProtocolFault.ofParticipants)
  func participant(fault: ProtocolFault) async throws { try await Self.strike(fault) }

  @Test(
    "An event stays atomic and matches its reply when a coordinator crashes, hangs or disconnects",
    arguments: ProtocolFault.ofCoordinators)
  func coordinator(fault: ProtocolFault) async throws { try await Self.strike(fault) }

  @Test("Every failpoint of the protocol is covered by every kind of fault")
  func complete() {
    let faults = ProtocolFault.ofParticipants + ProtocolFault.ofCoordinators
    for point in Failpoint.allCases
    // Only an asynchronous transition reaches this failpoint, which `PromisingModelTests` covers.
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
      switch (fault.expectedOutcome, reply) {
      case (.committed, .committed), (.either, .committed): break
      case (.notTaken, .refused), (.notTaken, .busy), (.notTaken, .unavailable),
        (.either, .refused), (.either, .busy), (.either, .unavailable):
        break
      default: Issue.record("the caller received \(reply)")
      }
      if fault.path == .unwilling { try await topology.send("right", Party.Event.agree) }
      // No participant stays locked.
      let last = try await topology.meet(mode: .await(.seconds(60)))
      #expect(last.isCommitted, "\(last)")
      try await topology.expectMet(reply.isCommitted ? 2 : 1)
    }
  }

  /// Requests the event, lets the fault act, and returns the reply.
  private static func meet(
    _ topology: TopologyHarness, under fault: ProtocolFault
  ) async throws -> SynchronizedReply {
    async let reply = topology.meet()
    try await topology.expectLog(
      fault.node, contains: "failpoint \(fault.point.rawValue): \(fault.kind.rawValue)")
    guard fault.kind == .stop else { return try await reply }
    switch fault.resumeCondition {
    case .nothing: break
    case .answer: _ = try await reply
    case .doubt(let participant):
      try await topology.expectLog(participant, contains: "\(InDoubtReport.Cause.silence)")
    }
    try await topology.resume(fault.node)
    return try await reply
  }

  @Test(
    "Events at a prepared participant wait for the outcome, whatever the fault",
    arguments: ProtocolFault.Kind.allCases)
  func queued(kind: ProtocolFault.Kind) async throws {
    var rules = "pair:commit.before=stop@1/1"
    if kind == .cut { rules += ",left:query.sent=cut@2/1" }
    let environment = [FailpointCounter.rulesVariable: rules]
    try await withTopology(Parties.pair(environment: environment)) { topology in
      async let reply = topology.meet()
      try await topology.expectLog("left", contains: "\(InDoubtReport.Cause.silence)")
      async let step = topology.send("left", Party.Event.step)
      switch kind {
      case .crash:
        try await topology.kill("left")
        try await topology.expectLog(
          "left", contains: "is in doubt after \(InDoubtReport.Cause.restart)")
      case .cut: try await topology.expectLog("left", contains: "failpoint query.sent: cut")
      case .stop:
        try await topology.pause("left")
        try await topology.resume("left")
      }
      #expect(try await topology.party("left") == .willing(met: 0, steps: 0))
      try await topology.resume("pair")
      #expect(try await reply.isCommitted)
      let state = try JSONValue(encoding: Party.State.willing(met: 1, steps: 1))
      #expect(try await step == .accepted(version: 2, state: state))
    }
  }
}
