import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Files that 'apply' refuses", .timed)
struct ApplyRefusalTests {
  @Test("'apply' of a file with errors or of another topology changes nothing")
  func errors() async throws {
    try await DetachedTopology.with(Ward.file) { ward in
      let before = try await ward.pids()
      try ward.write(
        Ward.changed.replacing("machine: Fragile", with: "machine: Frgile")
          .replacing("same:", with: "same: { nonsense: 1 }\n  same2:"))
      for options in [[], ["-p", "ward"], ["-p", "ward", "--dry-run"]] {
        let wrong = try await ward.run(["apply", "ward.yaml"] + options, code: 2)
        #expect(wrong.output.isEmpty, "\(wrong)")
        #expect(wrong.error.contains("ward.yaml:4:"), "\(wrong)")
        #expect(wrong.error.contains("'Frgile'"), "\(wrong)")
        #expect(!wrong.error.contains(ward.tool.directory.path + "/ward.yaml"), "\(wrong)")
      }

      try ward.write(Ward.changed.replacing("topology: ward", with: "topology: other"))
      let other = try await ward.apply(code: 3)
      #expect(other.error.contains("topology 'other'"), "\(other)")
      #expect(try await ward.pids() == before)
      #expect(try await ward.directory().isRunning)

      let named = try await ward.apply("-p", "ward")
      #expect(named.output == Ward.plan, "\(named)")
    }
  }

  @Test("A plan can be applied only while it is valid and no later plan exists")
  func stalePlan() async throws {
    try await DetachedTopology.with(Ward.file) { ward in
      try ward.write(Ward.changed)
      let client = try ward.client()
      defer { client.close() }
      var request = ChangeRequest(
        file: ward.tool.directory.path + "/ward.yaml", variables: [:], keepsName: false,
        isDryRun: false)
      let timeout = TopologyHarness.clientTimeout
      let stale = "the topology has changed since the plan was made; apply the file again"
      let first = try await client.plan(request, within: timeout)
      let second = try await client.plan(request, within: timeout)
      #expect(first.change == second.change)
      await #expect(throws: TopologyClientError.failed(stale)) {
        try await client.apply(first, within: timeout)
      }
      // A manually stopped node would stay stopped, and the plan does not include this.
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
        Ward.changed.replacing("topology: ward", with: "topology: other"), to: "other.yaml")
      request.file = other
      await #expect(
        throws: TopologyClientError.failed(
          "'\(other)' describes topology 'other', not 'ward'; add '-p ward' to apply the file "
            + "anyway"
        )
      ) { try await client.plan(request, within: timeout) }
      #expect(try await ward.directory()[node: "gone"]?.isRunning == true)
    }
  }
}
