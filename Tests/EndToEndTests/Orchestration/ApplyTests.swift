import Glibc
import NumberMachines
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

@Suite("'apply': a topology that runs goes over to its changed file")
struct ApplyTests {
  private static let ward = """
    topology: ward
    program: TestNodes
    nodes:
      same: { machine: Button }
      changed: { machine: Fragile }
      gone: { machine: Button }
    """

  private static let changedWard =
    ward
    .replacing("Fragile", with: "Fragile, parameters: { diesAtStart: false }")
    .replacing("gone:", with: "added:")

  private static let plan = """
    ward: 1 node added, 1 removed, 1 restarted, 1 unchanged
    ~ changed  restarts: what it hosts, or a parameter of it, was changed
    + added    starts
    - gone     stops

    """

  private func apply(
    _ topology: DetachedTopology, _ options: String..., code: Int32 = 0
  ) async throws -> CommandLineTool.Result {
    let program = try topology.tool.start(["apply", topology.name + ".yaml"] + options)
    let result = try await topology.tool.result(of: program, within: .seconds(60))
    #expect(result.code == code, "\(result)")
    return result
  }

  @Test("what is added starts, what is removed stops, what is changed goes on from its journal")
  func applies() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let before = try await ward.pids()
      let client = try ward.client()
      defer { client.close() }
      try await client.send("changed", Fragile.Event.touch)
      try await client.send("changed", Fragile.Event.touch)
      try ward.write(Self.changedWard)

      let dry = try await apply(ward, "--dry-run")
      #expect(dry.output == Self.plan && dry.error.isEmpty, "\(dry)")
      #expect(try await ward.pids() == before)

      let result = try await apply(ward)
      #expect(result.output == Self.plan && result.error.isEmpty, "\(result)")
      let after = try await ward.directory()
      #expect(after.nodes.map(\.name) == ["same", "changed", "added"])
      #expect(after.isRunning)
      #expect(after[node: "same"]?.pid == before["same"])
      #expect(after[node: "changed"]?.incarnation == 2)
      #expect(after[node: "changed"]?.status?.state == ["well": ["steps": 2]])
      #expect(after[node: "added"]?.incarnation == 1)
      #expect(ward.alive([before["changed"], before["gone"]].compactMap { $0 }).isEmpty)
      #expect(try ward.log("gone").last?.contains("removed: the topology has it no more") == true)
      #expect(FileSystem.exists(try ward.directories.journal(of: "gone")))
      // Who was attached before goes on.
      try await client.send("changed", Fragile.Event.touch)
      try await client.send("added", Button.Event.press)
      let gone = try await ward.tool.run("send", "gone", "press")
      #expect(gone.code == 2, "\(gone)")

      let again = try await apply(ward)
      #expect(again.output == "ward: nothing to change\n", "\(again)")
      let pids = try await ward.pids()
      #expect(pids == Dictionary(uniqueKeysWithValues: after.nodes.map { ($0.name, $0.pid ?? 0) }))
    }
  }

  @Test("as JSON the plan and the outcome are one object, or a line each")
  func json() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      try ward.write(Self.changedWard)
      let plan: JSONValue = [
        ["node": "same", "change": "unchanged", "reason": .null],
        [
          "node": "changed", "change": "restarts",
          "reason": "what it hosts, or a parameter of it, was changed",
        ],
        ["node": "added", "change": "starts", "reason": .null],
        ["node": "gone", "change": "stops", "reason": .null],
      ]
      func record(_ result: CommandLineTool.Result) throws -> JSONValue {
        #expect(result.error.isEmpty, "\(result)")
        return try JSONValue(parsing: result.output.utf8)
      }
      #expect(
        try await record(apply(ward, "--dry-run", "-o", "json")) == [
          "topology": "ward", "dryRun": true, "plan": plan, "warnings": [], "outcome": "planned",
          "error": .null,
        ])
      let lines = try await apply(ward, "-o", "jsonl").output.split(separator: "\n")
        .map { try JSONValue(parsing: $0.utf8) }
      #expect(
        lines == [
          ["topology": "ward", "dryRun": false, "plan": plan, "warnings": []],
          ["topology": "ward", "outcome": "applied", "error": .null],
        ])
      let again = try await record(apply(ward, "-o", "json"))
      #expect(again["outcome"] == "applied" && again["dryRun"] == false)
      guard case .array(let entries)? = again["plan"] else { return #expect(again["plan"] != nil) }
      #expect(entries.map { $0["change"] } == Array(repeating: "unchanged", count: 3))

      // A node that fails is the outcome, and the rest goes by the new file.
      try FileSystem.replace(
        ward.directories.journal(of: "broken"), with: Array("no journal".utf8))
      try ward.write(Self.changedWard.replacing("added:", with: "broken:"))
      let failed = try await apply(ward, "-o", "json", code: 1)
      let told = try JSONValue(parsing: failed.output.utf8)
      #expect(told["outcome"] == "failed", "\(failed)")
      #expect(told["error"]?.string?.contains("node 'broken' failed: ") == true, "\(failed)")
      #expect(failed.error.contains("node 'broken' failed: "), "\(failed)")

      try ward.write(Self.changedWard + "    extra: 1\n")
      let wrong = try await apply(ward, "-o", "json", code: 2)
      #expect(wrong.output.isEmpty && wrong.error.contains("ward.yaml:"), "\(wrong)")
    }
  }

  @Test("a file with errors, or of another name, leaves everything as it was")
  func errors() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let before = try await ward.pids()
      try ward.write(
        Self.changedWard.replacing("machine: Fragile", with: "machine: Frgile")
          .replacing("same:", with: "same: { nonsense: 1 }\n  same2:"))
      for options in [[], ["-p", "ward"], ["-p", "ward", "--dry-run"]] {
        let program = try ward.tool.start(["apply", "ward.yaml"] + options)
        let wrong = try await ward.tool.result(of: program, within: .seconds(60))
        #expect(wrong.code == 2 && wrong.output.isEmpty, "\(wrong)")
        #expect(wrong.error.contains("ward.yaml:4:"), "\(wrong)")
        #expect(wrong.error.contains("'Frgile'"), "\(wrong)")
        #expect(!wrong.error.contains(ward.tool.directory.path + "/ward.yaml"), "\(wrong)")
      }

      try ward.write(Self.changedWard.replacing("topology: ward", with: "topology: other"))
      let other = try await apply(ward, code: 3)
      #expect(other.error.contains("no topology 'other' runs"), "\(other)")
      #expect(try await ward.pids() == before)
      #expect(try await ward.directory().isRunning)

      let named = try await apply(ward, "-p", "ward")
      #expect(named.output == Self.plan, "\(named)")
    }
  }

  @Test("a plan is applied only while it is the one that was shown last, and still holds")
  func stalePlan() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      try ward.write(Self.changedWard)
      let client = try ward.client()
      defer { client.close() }
      var request = ChangeRequest(
        file: ward.tool.directory.path + "/ward.yaml", variables: [:], keepsName: false,
        isDryRun: false)
      let timeout = TopologyHarness.clientTimeout
      let stale = "the topology has changed since the plan was made: apply the file again"
      let first = try await client.plan(request, within: timeout)
      let second = try await client.plan(request, within: timeout)
      #expect(first.change == second.change)
      await #expect(throws: TopologyClientError.failed(stale)) {
        try await client.apply(first, within: timeout)
      }
      // Stopped by hand it would stay so, which nobody was told.
      try await client.stop(["changed"], within: timeout)
      await #expect(throws: TopologyClientError.failed(stale)) {
        try await client.apply(second, within: timeout)
      }
      request.isDryRun = true
      let dry = try await client.plan(request, within: timeout)
      await #expect(throws: TopologyClientError.failed(stale)) {
        try await client.apply(dry, within: timeout)
      }
      let other = try ward.tool.directory.write(
        Self.changedWard.replacing("topology: ward", with: "topology: other"), to: "other.yaml")
      request.file = other
      await #expect(
        throws: TopologyClientError.failed(
          "'\(other)' is of topology 'other', and not of 'ward': '-p ward' applies it all the same")
      ) { try await client.plan(request, within: timeout) }
      #expect(try await ward.directory()[node: "gone"]?.isRunning == true)
    }
  }

  @Test("variables are those of whoever applies the file, and 'ls' shows the file from then on")
  func variables() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let before = try await ward.pids()
      var tool = ward.tool
      tool.environment["DIES"] = "false"
      try tool.directory.write(
        Self.ward.replacing("Fragile", with: "Fragile, parameters: { diesAtStart: ${DIES} }"),
        to: "other.yaml")
      let result = try await tool.run("apply", "other.yaml", within: .seconds(60))
      #expect(result.code == 0, "\(result)")
      #expect(result.output.hasPrefix("ward: 1 node restarted, 2 unchanged\n"), "\(result)")
      let after = try await ward.pids()
      #expect(after["same"] == before["same"] && after["changed"] != before["changed"])
      let list = try await tool.run("ls")
      #expect(list.output.contains("/other.yaml"), "\(list)")
    }
  }

  @Test("a program that was built anew restarts its nodes, and no others")
  func builtAnew() async throws {
    let program = "#!/bin/sh\nexec '\(CommandLineTool.products)/TestNodes' \"$@\"\n"
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try await LaunchLimit.shared.run {
      try tool.directory.write(program, to: "built", mode: 0o755)
      let ward = try DetachedTopology(
        tool: tool, name: "ward",
        yaml: Self.ward.replacing("Fragile", with: "Fragile, program: ./built"))
      try await ward.up()
      let before = try await ward.pids()
      #expect(try await apply(ward).output == "ward: nothing to change\n")
      try tool.directory.write(program + "# anew\n", to: "built", mode: 0o755)
      let result = try await apply(ward)
      #expect(
        result.output == """
          ward: 1 node restarted, 2 unchanged
          ~ changed  restarts: its program was built anew

          """)
      let after = try await ward.pids()
      #expect(after["changed"] != before["changed"])
      #expect(after["same"] == before["same"] && after["gone"] == before["gone"])
    }
  }

  @Test("a node between a sender and a receiver loses and doubles no number that flows")
  func rewiredUnderLoad() async throws {
    let direct = """
      topology: flow
      program: TestNodes
      nodes:
        source: { machine: NumberSource, parameters: { id: source, pause: 0, burst: 1000 } }
        sink: { machine: NumberSink }
      pipes:
        - { from: source.out, to: sink.in, durability: none, capacity: 16 }
      """
    let relayed = direct.replacing(
      "  - { from: source.out, to: sink.in, durability: none, capacity: 16 }",
      with: """
          - { from: source.out, to: relay.in, durability: none, capacity: 16 }
          - { from: relay.out, to: sink.in, durability: none, capacity: 16 }
        """
    ).replacing(
      "  sink:", with: "  relay: { machine: NumberRelay, parameters: { id: relay } }\n  sink:")
    try await DetachedTopology.with(direct, name: "flow") { flow in
      let client = try flow.client()
      defer { client.close() }
      let isApplied = Locked(false)
      // Numbers flow until the change has come through, and then some more.
      let feeder = Task {
        var until = 0
        var isLast = false
        repeat {
          isLast = isApplied.withLock { $0 }
          until += 4_000
          let next = NumberEvent.go(until: until)
          let isTaken: Bool? = try await poll(every: .milliseconds(2), within: .seconds(120)) {
            do {
              try await client.send("source", next)
              return true
            } catch TopologyClientError.busy {
              // Its pipe was full just then.
              return nil
            }
          }
          #expect(isTaken == true)
          let half = until - 2_000
          _ = try await client.wait(for: "sink", within: .seconds(120)) {
            Self.tallies($0)?.total ?? 0 >= half
          }
        } while !isLast
        return until
      }
      _ = try await client.wait(for: "sink", within: .seconds(60)) {
        Self.tallies($0)?.total ?? 0 > 600
      }
      try flow.write(relayed)
      let result = try await apply(flow)
      #expect(
        result.output == """
          flow: 1 node added, 2 restarted
          ~ source  restarts: its pipes were changed
          + relay   starts
          ~ sink    restarts: its pipes were changed

          """)
      isApplied.withLock { $0 = true }
      let until = try await feeder.value
      let end = try await client.wait(for: "sink", within: .seconds(120)) {
        Self.tallies($0)?.total == until
      }
      let routes = try #require(Self.tallies(end.state)?.routes)
      let first = try #require(routes["source"])
      let second = try #require(routes["source>relay"])
      #expect(first.count == first.last && first.skipped == 0 && first.late == 0, "\(routes)")
      // The second route goes on with the number behind the first one's last.
      #expect(second.skipped == first.last && second.late == 0, "\(routes)")
      #expect(second.last == until && first.count + second.count == until, "\(routes)")
      for node in try await flow.directory().nodes { #expect(node.status?.gaps == 0, "\(node)") }
    }
  }

  private static func tallies(_ state: JSONValue) -> Tallies? {
    try? state["counting"]?["tallies"]?.decode(Tallies.self)
  }

  @Test("a composite gains a participant, and takes its events with that from then on")
  func composite() async throws {
    let pair = """
      topology: ward
      program: TestNodes
      nodes:
        left: { machine: Gate }
        right: { machine: Gate }
        third: { machine: Gate }
      composites:
        lock: { components: [left, right], synchronize: { open: } }
      """
    try await DetachedTopology.with(pair) { ward in
      let before = try await ward.pids()
      let send = try await ward.tool.run("send", "lock", "open", within: .seconds(60))
      #expect(send.code == 0, "\(send)")
      for node in ["left", "right"] {
        let shut = try await ward.tool.run("send", node, "shut", within: .seconds(60))
        #expect(shut.code == 0, "\(shut)")
      }
      try ward.write(pair.replacing("[left, right]", with: "[left, right, third]"))
      let result = try await apply(ward)
      #expect(
        result.output == """
          ward: 2 nodes restarted, 2 unchanged
          ~ third  restarts: its composites were changed
          ~ lock   restarts: its composites were changed

          """)
      let all = try await ward.tool.run("send", "lock", "open", within: .seconds(60))
      #expect(all.code == 0, "\(all)")
      let after = try await ward.await("all three are open") { directory in
        ["left", "right", "third"].allSatisfy {
          directory[node: $0]?.status?.state == ["open": ["passed": 0]]
        }
      }
      for node in ["left", "right"] { #expect(after[node: node]?.pid == before[node]) }
    }
  }

  @Test("a node stopped by hand stays so; one that fails is told, and the rest has changed")
  func notRunning() async throws {
    try await DetachedTopology.with(Self.ward) { ward in
      let before = try await ward.pids()
      #expect(try await ward.tool.run("stop", "changed", within: .seconds(60)).code == 0)
      try FileSystem.replace(
        ward.directories.journal(of: "added"), with: Array("no journal".utf8))
      try ward.write(Self.changedWard)
      let failed = try await apply(ward, code: 1)
      #expect(
        failed.output == """
          ward: 1 node added, 1 removed, 1 taken over, 1 unchanged
          = changed  stays stopped, and starts anew by hand: what it hosts, or a parameter of it, was \
          changed
          + added    starts
          - gone     stops

          """)
      #expect(failed.error.contains("node 'added' failed: the journal"), "\(failed)")
      let after = try await ward.directory()
      #expect(after[node: "changed"]?.phase == "stopped")
      #expect(after[node: "added"]?.phase == "failed")
      #expect(after[node: "same"]?.pid == before["same"])
      // It goes by the new file now.
      #expect(try await apply(ward).output == "ward: nothing to change\n")
      #expect(try await ward.tool.run("start", "changed", within: .seconds(60)).code == 0)
      try ward.write(Self.changedWard.replacing("added:", with: "gone:"))
      let back = try await apply(ward)
      #expect(back.output.hasPrefix("ward: 1 node added, 1 removed, 2 unchanged\n"), "\(back)")
      #expect(try await ward.directory()[node: "gone"]?.incarnation == 2)
    }
  }

  /// `slow` stands still when it is to stop.
  private static let slowWard = """
    topology: ward
    program: TestNodes
    timeouts: { stop: 600s }
    nodes:
      slow:
        machine: Button
        environment: { PIPERUNTIME_FAILPOINTS: "slow:drain.before=stop" }
      other: { machine: Button }
    """

  /// Starts an `apply` that waits for `slow` to stop.
  private func withUnfinished(
    _ body: (DetachedTopology, LaunchedProgram, _ slow: Int32) async throws -> Void
  ) async throws {
    try await DetachedTopology.with(Self.slowWard) { ward in
      let slow = try #require(try await ward.pids()["slow"])
      try ward.write(
        Self.slowWard.replacing(
          #"environment: { PIPERUNTIME_FAILPOINTS: "slow:drain.before=stop" }"#,
          with: "durability: none"
        ).replacing("other:", with: "added: { machine: Button }\n  other:"))
      let program = try ward.tool.start(["apply", "ward.yaml", "--timeout", "600s"])
      try await ward.await("the change to begin") {
        $0.phase == "changing" && $0[node: "slow"]?.phase == "stopping"
      }
      try await body(ward, program, slow)
    }
  }

  @Test("a second change and a start by hand are refused while one is under way, 'ps' is answered")
  func second() async throws {
    try await withUnfinished { ward, program, slow in
      for arguments in [["apply", "ward.yaml"], ["stop", "other"], ["start", "slow"]] {
        let other = try await ward.tool.result(
          of: try ward.tool.start(arguments), within: .seconds(60))
        #expect(other.code == 1, "\(arguments): \(other)")
        #expect(other.error.contains("another change is under way"), "\(other)")
      }
      let ps = try await ward.tool.run("ps", within: .seconds(60))
      #expect(ps.code == 0 && !ps.output.contains("added"), "\(ps)")
      #expect(kill(slow, SIGCONT) == 0)
      let result = try await ward.tool.result(of: program, within: .seconds(60))
      #expect(result.code == 0, "\(result)")
      let after = try await ward.directory()
      #expect(after.isRunning && after[node: "added"]?.isRunning == true)
      #expect(after[node: "slow"]?.incarnation == 2)
    }
  }

  @Test("'down' in the midst of a change takes everything down")
  func down() async throws {
    try await withUnfinished { ward, program, slow in
      let down = try ward.tool.start(["down"])
      try await ward.await("the way down") { $0.phase == "stopping" }
      let result = try await ward.tool.result(of: program, within: .seconds(60))
      #expect(result.code == 1, "\(result)")
      #expect(result.error.contains("the topology goes down"), "\(result)")
      #expect(kill(slow, SIGCONT) == 0)
      let end = try await ward.tool.result(of: down, within: .seconds(60))
      #expect(end.code == 0 && end.output == "ward: down\n", "\(end)")
      #expect(ward.tool.directory.processes.isEmpty)
    }
  }

  @Test("an orchestrator that is killed in the midst of a change is made good by the next 'up'")
  func killed() async throws {
    try await withUnfinished { ward, program, slow in
      let other = try #require(try await ward.pids()["other"])
      try await ward.killOrchestrator()
      let result = try await ward.tool.result(of: program, within: .seconds(60))
      #expect(result.code == 1, "\(result)")
      #expect(kill(slow, SIGCONT) == 0)
      try await ward.up()
      let after = try await ward.directory()
      #expect(after.nodes.map(\.name) == ["slow", "added", "other"])
      #expect(after.isRunning)
      #expect(after[node: "other"]?.pid == other)
      #expect(after[node: "slow"]?.incarnation == 2)
    }
  }

  @Test("a change that does not come through in time is 124, and goes on")
  func late() async throws {
    try await DetachedTopology.with(Self.slowWard) { ward in
      let slow = try #require(try await ward.pids()["slow"])
      try ward.write(Self.slowWard.replacing("slow:\n", with: "slow:\n    durability: none\n"))
      let result = try await apply(ward, "--timeout", "3s", code: 124)
      #expect(result.error.contains("timed out after "), "\(result)")
      #expect(kill(slow, SIGCONT) == 0)
      try await ward.await("the change to come through") {
        $0.isRunning && $0[node: "slow"]?.incarnation == 2
      }
    }
  }
}
