import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("An effect that kills its node", .timed)
struct PoisonEffectTests {
  private static let quick = RestartPolicy(
    maximumRestarts: 1_000, window: .seconds(1),
    backoff: Backoff(initial: .milliseconds(1), max: .milliseconds(10)))

  /// A stuntman with a ledger, who performs tricks on request.
  private struct Stage {
    let topology: TopologyHarness
    let ledger: String

    /// Returns the keys with which the effect or the feedback has run.
    func runs(of work: String) -> [Substring] {
      let text = FileSystem.contents(of: ledger).map { String(decoding: $0, as: UTF8.self) } ?? ""
      return text.split(separator: "\n").filter { $0.hasPrefix(work) }
    }

    /// Lets later runs of the trick succeed without ending the process.
    func spreadNet() { close(open(ledger + ".net", O_WRONLY | O_CREAT, 0o600)) }

    func perform(_ trick: Stuntman.Trick) async throws {
      // The process may end before it replies. The client repeats the request, which is applied
      // once.
      _ = try? await topology.client.send(
        "node", Stuntman.Event.perform(trick), timeout: .seconds(60))
    }

    /// Waits for N dead letters, or for more crashes than expected.
    func deadLetters(_ count: UInt64) async throws -> NodeInformation {
      let node = try await topology.expectStatus(
        of: "node", "\(count) letters, or one death too many", within: .seconds(60)
      ) { $0.isRunning && $0.status?.deadLetters == count || $0.incarnation > 12 }
      try #require(node.incarnation <= 12)
      return node
    }
  }

  private func withStage(_ body: @Sendable (Stage) async throws -> Void) async throws {
    let directory = try TestDirectory()
    defer { directory.remove() }
    let ledger = directory.path + "/ledger"
    let topology = Topology(
      name: "show", program: "TestNodes",
      nodes: [
        .machine(
          "Stuntman", name: "node", parameters: ["ledger": .string(ledger)], restart: Self.quick)
      ])
    try await withTopology(topology, options: .crashing("node")) { topology in
      try await body(Stage(topology: topology, ledger: ledger))
    }
  }

  @Test(
    "An effect that kills its node three times becomes a dead letter and runs again when resent",
    arguments: [Stuntman.Trick.trap, .exit, .childTrap])
  func resent(trick: Stuntman.Trick) async throws {
    try await withStage { stage in
      try await stage.perform(trick)
      let node = try await stage.deadLetters(1)
      #expect(node.incarnation == 4)
      let deadLetter = try #require(node.status?.recentDeadLetters.first)
      #expect(deadLetter.pipe == "effect stunt")
      #expect(deadLetter.sequence == 1)
      #expect(deadLetter.event == "stunt")
      #expect(deadLetter.reason.contains(" 3 times"))
      #expect(deadLetter.state?["performing"] != nil)
      // The feedback runs in this process as well.
      #expect(node.status?.effects == 1)
      try await stage.topology.expectStatus(of: "node", "the feedback") { _ in
        !stage.runs(of: "watch").isEmpty
      }
      #expect(stage.runs(of: "stunt").count == 3)

      stage.spreadNet()
      #expect(
        try await stage.topology.client.resend(deadLetter: deadLetter.id, of: "node") == .done)
      try await stage.topology.expect("node", Stuntman.State.resting(done: 1))
      #expect(try await stage.topology.status("node").status?.deadLetters == 0)
      #expect(stage.runs(of: "stunt").count == 4)
      #expect(Set(stage.runs(of: "stunt")).count == 1)
    }
  }

  @Test("An effect parked as a dead letter stays parked in later processes until it is dropped")
  func dropped() async throws {
    try await withStage { stage in
      try await stage.perform(.trap)
      let deadLetter = try #require(try await stage.deadLetters(1).status?.recentDeadLetters.first)
      try await stage.topology.kill("node")
      try await stage.topology.expectStatus(of: "node", "the next process") {
        $0.isRunning && $0.incarnation == 5 && $0.status?.effects == 1
      }
      #expect(stage.runs(of: "stunt").count == 3)
      try await stage.topology.client.drop(deadLetter: deadLetter.id, of: "node")
      try await stage.topology.kill("node")
      try await stage.topology.expectStatus(of: "node", "the process after it") {
        $0.isRunning && $0.incarnation == 6 && $0.status?.deadLetters == 0
          && $0.status?.effects == 1
      }
      #expect(stage.runs(of: "stunt").count == 3)
      let moved = try await stage.topology.send("node", Stuntman.Event.giveUp)
      #expect(moved == .accepted(version: 2, state: ["resting": ["done": 0]]))
    }
  }

  @Test("An effect parked as a dead letter cannot be resent after a step has cancelled the effect")
  func cancelled() async throws {
    try await withStage { stage in
      try await stage.perform(.trap)
      let deadLetter = try #require(try await stage.deadLetters(1).status?.recentDeadLetters.first)
      try await stage.topology.send("node", Stuntman.Event.giveUp)
      await #expect {
        try await stage.topology.client.resend(deadLetter: deadLetter.id, of: "node")
      } throws: { error in
        "\(error)".contains("has cancelled the effect of step 1")
      }
      #expect(try await stage.topology.status("node").status?.deadLetters == 1)
      try await stage.topology.client.drop(deadLetter: deadLetter.id, of: "node")
      #expect(try await stage.topology.status("node").status?.deadLetters == 0)
    }
  }

  @Test("A resent effect that kills the node again becomes a dead letter at once")
  func again() async throws {
    try await withStage { stage in
      try await stage.perform(.trap)
      let deadLetter = try #require(try await stage.deadLetters(1).status?.recentDeadLetters.first)
      _ = try? await stage.topology.client.resend(deadLetter: deadLetter.id, of: "node")
      let node = try await stage.topology.expectStatus(of: "node", "the next letter") {
        $0.isRunning && $0.status?.recentDeadLetters.first?.id == 2
      }
      #expect(node.incarnation == 5)
      #expect(node.status?.deadLetters == 1)
    }
  }

  @Test("If an effect and a feedback both kill their node repeatedly, both become dead letters")
  func both() async throws {
    try await withStage { stage in
      try await stage.perform(.together)
      let deadLetters = try #require(try await stage.deadLetters(2).status?.recentDeadLetters)
      #expect(Set(deadLetters.map(\.pipe)) == ["effect stunt", "feedback 1"])
    }
  }

  @Test("An effect does not become a dead letter when its node is killed from outside")
  func innocent() async throws {
    try await withStage { stage in
      try await stage.perform(.hang)
      for incarnation in 2...5 as ClosedRange<UInt64> {
        try await stage.topology.expectStatus(of: "node", "both at work") { node in
          node.isRunning && node.status?.effects == 2
        }
        try await stage.topology.kill("node")
        try await stage.topology.expectStatus(of: "node", "the next process") {
          $0.isRunning && $0.incarnation == incarnation
        }
      }
      let node = try await stage.topology.expectStatus(of: "node", "both at work again") {
        $0.status?.effects == 2
      }
      #expect(node.status?.deadLetters == 0)
    }
  }

  @Test(
    "'dead-letters' shows a parked effect, and says that the effect runs again when it is resent")
  func verb() async throws {
    try await withStage { stage in
      try await stage.perform(.trap)
      _ = try await stage.deadLetters(1)
      let tool = CommandLineTool(beside: stage.topology)
      let shown = try await tool.run("dead-letters", "node", "show", "1")
      #expect(shown.output.contains("pipe    effect stunt, number 1"), "\(shown)")
      stage.spreadNet()
      let resent = try await tool.run("dead-letters", "node", "resend", "1")
      #expect(resent.output == "node: dead letter 1 accepted: its effect runs again\n", "\(resent)")
    }
  }
}
