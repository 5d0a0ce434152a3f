import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A coordinator with participants on other hosts", .timed)
struct CoordinatorOffHostTests {
  private static let participants = ["left", "right"]

  /// Returns the stand-in orchestrator of two participants and of their composite's coordinator.
  private func orchestrator(in tool: CommandLineTool) throws -> StandInOrchestrator {
    let vector = #"{"composite":"PAIR","event":"meet","participants":["left","right"]}"#
    let initial = #"{"willing":{"met":0,"steps":0}}"#
    let components = Self.participants.map {
      #"{"initial":\#(initial),"machine":"Party","node":"\#($0)"}"#
    }
    let places = Self.participants.map { #"{"feed":"","inbox":"","name":"\#($0)"}"# }
    let plan = """
      {"components":[\(places.joined(separator: ","))],"conflictClass":{"name":"PAIR",
      "program":"TestNodes","durability":"process","components":[\(components.joined(separator: ","))],
      "composites":[{"name":"PAIR","components":["left","right"],"nodes":["left","right"],
      "vectors":[\(vector)],"events":[{"name":"meet","fields":[]}],"refusals":{},"own":{}}]},"pipes":{}}
      """
    var members = [
      "PAIR": StandInOrchestrator.Member(
        content: .composites(["PAIR"]),
        configuration: .init(
          plan: try JSONRecord.decode(CoordinatorPlan.self, from: Array(plan.utf8))),
        routingIDsByPeer: ["left": [], "right": []])
    ]
    for name in Self.participants {
      members[name] = .init(
        content: .machine("Party", parameters: .object([:])),
        configuration: .init(participant: .init(coordinator: "PAIR", events: ["meet": ["PAIR"]])),
        routingIDsByPeer: ["PAIR": [WireName.coordinator("PAIR")]])
    }
    return try StandInOrchestrator(members, in: tool)
  }

  private func client(of name: String, _ orchestrator: StandInOrchestrator) throws -> KeyedPeer {
    let process = try #require(orchestrator[name])
    let endpoints = try #require(process.hello?.endpoints)
    return try KeyedPeer(
      "me", to: endpoints.inbox, of: process, as: orchestrator.client,
      in: orchestrator.tool.directory)
  }

  /// Requests a synchronized event, and repeats the request until both participants are connected.
  private func meet(_ client: KeyedPeer) async throws {
    let body = TransactionBody(composite: "PAIR", event: Array(#"{"meet":{}}"#.utf8)).bytes
    let answer = try await client.ask(
      .synchronize, flags: SynchronizeFlag.await.rawValue, count: 60_000, body)
    #expect(answer.code == RequestReply.Code.synchronized.rawValue, "\(answer)")
    #expect(answer.text.contains("committed"), "\(answer)")
  }

  private func untilShown(
    met: Int, steps: Int, _ orchestrator: StandInOrchestrator
  ) async throws {
    let left = try JSONValue(encoding: Party.State.willing(met: met, steps: steps))
    let right = try JSONValue(encoding: Party.State.willing(met: met, steps: 0))
    try await orchestrator.until("left") { $0.status?.state == left }
    try await orchestrator.until("right") { $0.status?.state == right }
    try await orchestrator.until("PAIR") {
      $0.status?.composites.first?.state == .object(["left": left, "right": right])
    }
  }

  @Test(
    "A coordinator commits with a participant that was killed and restarted"
  )
  func replacedParticipant() async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool)
      let all = Self.participants + ["PAIR"]
      for name in all { try orchestrator.launch(name) }
      for name in all { try await orchestrator.untilRunning(name) }
      let client = try client(of: "PAIR", orchestrator)
      try await meet(client)
      try await untilShown(met: 1, steps: 0, orchestrator)
      try await orchestrator.kill("left")
      try orchestrator.launch("left", incarnation: 2)
      try await meet(client)
      try await orchestrator.untilRunning("left")
      // Only the feed of the new process reports this step.
      let step = try await self.client(of: "left", orchestrator).ask(
        .request, Array(#"{"step":{}}"#.utf8))
      #expect(step.code == RequestReply.Code.accepted.rawValue, "\(step)")
      try await untilShown(met: 2, steps: 1, orchestrator)
    }
  }

  @Test(
    "A restarted coordinator continues, and its participants admit its new key")
  func replacedCoordinator() async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool)
      let all = Self.participants + ["PAIR"]
      for name in all { try orchestrator.launch(name) }
      for name in all { try await orchestrator.untilRunning(name) }
      try await meet(client(of: "PAIR", orchestrator))
      try await orchestrator.kill("PAIR")
      try orchestrator.launch("PAIR", incarnation: 2)
      try await orchestrator.untilRunning("PAIR")
      try await meet(client(of: "PAIR", orchestrator))
      try await untilShown(met: 2, steps: 0, orchestrator)
    }
  }

  @Test("An embedded coordinator commits with its own keys")
  func embeddedCoordinator() async throws {
    try await CommandLineTool.launching { tool in
      let orchestrator = try orchestrator(in: tool)
      for (met, incarnation) in [(1, UInt64(1)), (2, 2)] {
        if incarnation == 1 { try orchestrator.launch("right") }
        try orchestrator.launch("left", incarnation: incarnation)
        try await orchestrator.untilRunning("left")
        try orchestrator.embedCoordinator("PAIR", in: "left", incarnation: incarnation)
        try await orchestrator.untilRunning("PAIR")
        try await meet(client(of: "PAIR", orchestrator))
        try await untilShown(met: met, steps: 0, orchestrator)
        if incarnation == 1 { try await orchestrator.kill("left") }
      }
    }
  }

  @Test(
    "A coordinator commits although a connection is cut during a transaction",
    arguments: ["PAIR:commit.sent=cut@1", "PAIR:prepare.sent=cut@1", "left:yes.after=cut@1"])
  func cut(rule: String) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment["PIPERUNTIME_FAILPOINTS"] = rule
      let orchestrator = try orchestrator(in: tool)
      let all = Self.participants + ["PAIR"]
      for name in all { try orchestrator.launch(name) }
      for name in all { try await orchestrator.untilRunning(name) }
      let client = try client(of: "PAIR", orchestrator)
      for _ in 1...3 { try await meet(client) }
      try await untilShown(met: 3, steps: 0, orchestrator)
      let hit = try #require(orchestrator[String(rule.prefix { $0 != ":" })])
      #expect(hit.program.errorText.contains("cut"), "\(hit.program.errorText)")
    }
  }
}
