import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("'apply' on a running topology", .timed)
struct ApplyTests {
  @Test(
    "'apply' starts added nodes, stops removed nodes, and restarts changed nodes with their states")
  func applies() async throws {
    try await DetachedTopology.with(Ward.file) { ward in
      let before = try await ward.pids()
      let client = try ward.client()
      defer { client.close() }
      try await client.send("changed", Fragile.Event.touch)
      try await client.send("changed", Fragile.Event.touch)
      try ward.write(Ward.changed)

      let dry = try await ward.apply("--dry-run")
      #expect(dry.output == Ward.plan && dry.error.isEmpty, "\(dry)")
      #expect(try await ward.pids() == before)

      let result = try await ward.apply()
      #expect(result.output == Ward.plan && result.error.isEmpty, "\(result)")
      let after = try await ward.await("its steps are there") {
        $0[node: "changed"]?.status?.state == ["well": ["steps": 2]]
      }
      #expect(after.nodes.map(\.name) == ["same", "changed", "added"])
      #expect(after.isRunning)
      #expect(after[node: "same"]?.pid == before["same"])
      #expect(after[node: "changed"]?.incarnation == 2)
      #expect(after[node: "added"]?.incarnation == 1)
      #expect(ward.alive([before["changed"], before["gone"]].compactMap { $0 }).isEmpty)
      #expect(try ward.log("gone").last?.contains("removed from the topology") == true)
      #expect(FileSystem.exists(try ward.directories.journal(of: "gone")))
      // Existing connections stay open.
      try await client.send("changed", Fragile.Event.touch)
      try await client.send("added", Button.Event.press)
      try await ward.run("send", "gone", "press", code: 2)

      let again = try await ward.apply()
      #expect(again.output == DetachedTopology.unchanged, "\(again)")
      let pids = try await ward.pids()
      #expect(pids == Dictionary(uniqueKeysWithValues: after.nodes.map { ($0.name, $0.pid ?? 0) }))
    }
  }

  @Test("'apply' uses the caller's variables, and 'ls' shows the applied file afterwards")
  func variables() async throws {
    try await DetachedTopology.with(Ward.file) { ward in
      let before = try await ward.pids()
      var tool = ward.tool
      tool.environment["DIES"] = "false"
      try tool.directory.write(
        Ward.file.replacing("Fragile", with: "Fragile, parameters: { diesAtStart: ${DIES} }"),
        to: "other.yaml")
      let result = try await tool.run("apply", "other.yaml", within: .seconds(60), code: 0)
      #expect(result.output.hasPrefix("ward: 1 node restarted, 2 unchanged\n"), "\(result)")
      let after = try await ward.pids()
      #expect(after["same"] == before["same"] && after["changed"] != before["changed"])
      let list = try await tool.run("ls")
      #expect(list.output.contains("/other.yaml"), "\(list)")
    }
  }

  @Test("'apply' restarts the nodes of a program that was rebuilt, and no other nodes")
  func builtAnew() async throws {
    let program = "#!/bin/sh\nexec '\(CommandLineTool.products)/TestNodes' \"$@\"\n"
    let tool = try CommandLineTool()
    defer { tool.remove() }
    try await LaunchLimit.shared.run {
      try tool.directory.write(program, to: "built", mode: 0o755)
      let ward = try DetachedTopology(
        tool: tool, name: "ward",
        yaml: Ward.file.replacing("Fragile", with: "Fragile, program: ./built"))
      try await ward.up()
      let before = try await ward.pids()
      #expect(try await ward.apply().output == DetachedTopology.unchanged)
      try tool.directory.write(program + "# rebuilt\n", to: "built", mode: 0o755)
      let result = try await ward.apply()
      #expect(
        result.output == """
          ward: 1 node restarted, 2 unchanged
          ~ changed  \(TopologyChange.Fate.restarts(.launch(.build)))

          """)
      let after = try await ward.pids()
      #expect(after["changed"] != before["changed"])
      #expect(after["same"] == before["same"] && after["gone"] == before["gone"])
    }
  }

  @Test(
    "'apply' keeps stopped nodes stopped, reports nodes that fail, and applies all other changes")
  func notRunning() async throws {
    try await DetachedTopology.with(Ward.file) { ward in
      let before = try await ward.pids()
      try await ward.run("stop", "changed")
      try ward.tool.directory.write(
        """
        #!/bin/sh
        [ "$1" = describe ] && exec "\(CommandLineTool.products)/TestNodes" "$@"
        exit 3
        """, to: "dying", mode: 0o700)
      try ward.write(
        Ward.changed.replacing(
          "added: { ", with: "added: { program: ./dying, restart: { policy: never }, "))
      let failed = try await ward.apply(code: 1)
      #expect(
        failed.output == """
          ward: 1 node added, 1 removed, 1 updated, 1 unchanged
          = changed  \(TopologyChange.Fate.staysStopped(.launch(.hosted)))
          + added    starts
          - gone     stops

          """)
      #expect(failed.error.contains("node 'added' failed: "), "\(failed)")
      let after = try await ward.directory()
      #expect(after[node: "changed"]?.phase == "stopped")
      #expect(after[node: "added"]?.phase == "failed")
      #expect(after[node: "same"]?.pid == before["same"])
      // The node already uses the new file.
      #expect(try await ward.apply().output == DetachedTopology.unchanged)
      try await ward.run("start", "changed")
      try ward.write(Ward.changed.replacing("added:", with: "gone:"))
      let back = try await ward.apply()
      #expect(back.output.hasPrefix("ward: 1 node added, 1 removed, 2 unchanged\n"), "\(back)")
      #expect(try await ward.directory()[node: "gone"]?.incarnation == 2)
    }
  }
}
