import PipeRuntime
import TestTraits
import Testing

@Suite("The JSON output of 'apply'", .timed)
struct ApplyOutputTests {
  @Test("'apply' writes plan and outcome as one JSON object, or as one object per line")
  func json() async throws {
    try await DetachedTopology.with(Ward.file) { ward in
      try ward.write(Ward.changed)
      let plan: JSONValue = [
        ["node": "same", "change": "unchanged", "reason": .null],
        [
          "node": "changed", "change": "restarts",
          "reason": .string("\(ProcessRecord.Difference.hosted)"),
        ],
        ["node": "added", "change": "starts", "reason": .null],
        ["node": "gone", "change": "stops", "reason": .null],
      ]
      func record(_ result: CommandLineTool.Result) throws -> JSONValue {
        #expect(result.error.isEmpty, "\(result)")
        return try JSONValue(parsing: result.output.utf8)
      }
      #expect(
        try await record(ward.apply("--dry-run", "-o", "json")) == [
          "topology": "ward", "dryRun": true, "plan": plan, "warnings": [], "failures": [],
          "renames": [:], "unfinished": [], "outcome": "planned", "error": .null,
        ])
      let lines = try await ward.apply("-o", "jsonl").output.split(separator: "\n")
        .map { try JSONValue(parsing: $0.utf8) }
      #expect(
        lines == [
          [
            "topology": "ward", "dryRun": false, "plan": plan, "warnings": [], "failures": [],
            "renames": [:], "unfinished": [],
          ],
          ["topology": "ward", "outcome": "applied", "error": .null],
        ])
      let again = try await record(ward.apply("-o", "json"))
      #expect(again["outcome"] == "applied" && again["dryRun"] == false)
      guard case .array(let entries)? = again["plan"] else { return #expect(again["plan"] != nil) }
      #expect(entries.map { $0["change"] } == Array(repeating: "unchanged", count: 3))

      // A node that fails to start is part of the outcome, and the rest is applied.
      try ward.tool.directory.write(
        """
        #!/bin/sh
        [ "$1" = describe ] && exec "\(CommandLineTool.products)/TestNodes" "$@"
        exit 3
        """, to: "dying", mode: 0o700)
      let broken = "broken: { program: ./dying, machine: Button, restart: { policy: never } }"
      try ward.write(Ward.changed.replacing("added: { machine: Button }", with: broken))
      let failed = try await ward.apply("-o", "json", code: 1)
      let report = try JSONValue(parsing: failed.output.utf8)
      #expect(report["outcome"] == "failed", "\(failed)")
      #expect(report["error"]?.string?.contains("node 'broken' failed: ") == true, "\(failed)")
      #expect(failed.error.contains("node 'broken' failed: "), "\(failed)")

      try ward.write(Ward.changed + "    extra: 1\n")
      let wrong = try await ward.apply("-o", "json", code: 2)
      #expect(wrong.output.isEmpty && wrong.error.contains("ward.yaml:"), "\(wrong)")
    }
  }
}
