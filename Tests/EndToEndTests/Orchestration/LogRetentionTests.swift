import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The retention of logs", .timed)
struct LogRetentionTests {
  private static func ward(_ logs: String, ofLoud own: String = "") -> String {
    """
    topology: ward
    program: TestNodes
    logs: \(logs)
    nodes:
      loud: { machine: Fragile\(own) }
      quiet: { machine: Button }
    """
  }

  /// Returns the files of a node's log.
  private func files(of node: String, _ ward: DetachedTopology) throws -> [String] {
    FileSystem.entryNames(of: try ward.directories.logs).filter { $0.hasPrefix(node + ".log") }
  }

  private func shout(_ lines: Int, _ ward: DetachedTopology) async throws {
    let client = try ward.client()
    defer { client.close() }
    try await client.send("loud", Fragile.Event.shout(lines: lines))
    // The node's lines arrive through a pipe in order, and this one comes last.
    try await client.send("loud", Fragile.Event.shout(lines: 1))
    let isThere: Bool? = try await poll(within: .seconds(20)) {
      var reader = LogReader(directory: try ward.directories.logs, nodes: ["loud"])
      let last = reader.next().filter { $0.stream == .out }.suffix(2).map(\.text)
      return last == ["line \(lines)", "line 1"] ? true : nil
    }
    #expect(isThere == true)
  }

  @Test(
    "A log keeps the configured number of files, and 'logs' reports dropped lines"
  )
  func retention() async throws {
    let start = Self.ward("{ max_size: 8KiB, max_files: 4 }", ofLoud: ", logs: { max_files: 2 }")
    try await DetachedTopology.with(start) { ward in
      let pids = try await ward.pids()
      try await shout(2000, ward)
      #expect(try files(of: "loud", ward) == ["loud.log", "loud.log.1"])
      let shown = try await ward.run("logs", "loud").output.split(separator: "\n").map(String.init)
      let first = try #require(shown.first)
      #expect(first.hasPrefix("loud | \(LogWriter.dropNote)"), "\(first)")
      #expect(first.hasSuffix(" 2 files of 8KiB"), "\(first)")
      #expect(shown.last == "loud | line 1")

      try ward.write(Self.ward("{ max_size: 8KiB, max_files: 4 }"))
      let plan =
        "ward: 1 node updated, 1 unchanged\n= loud  \(TopologyChange.Fate.updatedInPlace([.logs]))\n"
      #expect(try await ward.apply().output == plan)
      try await shout(2001, ward)
      #expect(
        try files(of: "loud", ward) == ["loud.log", "loud.log.1", "loud.log.2", "loud.log.3"])
      try ward.write(Self.ward("{ max_size: 1MB, max_files: 1 }"))
      _ = try await ward.apply()
      try await shout(2002, ward)
      #expect(try files(of: "loud", ward) == ["loud.log"])
      let notes = try ward.log("loud").filter { $0.contains(" note \(LogWriter.dropNote)") }
      #expect(notes.last?.hasSuffix(" 1 file of 1MB") == true, "\(notes)")
      #expect(try await ward.pids() == pids)
    }
  }
}
