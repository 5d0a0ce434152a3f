import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The memory of long-running processes", .timed)
struct MemoryTests {
  private static let buttons = """
    topology: buttons
    program: TestNodes
    nodes:
      left: { machine: Button }
      right: { machine: Button }
    """

  /// Returns the anonymous memory of a process. Unit: bytes.
  private static func memory(of pid: Int32) throws -> Int {
    let status = try #require(FileSystem.text(of: "/proc/\(pid)/status"))
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("RssAnon:") })
    let words = line.split(separator: " ")
    return try #require(Int(words[words.count - 2])) * 1_024
  }

  @Test("The memory of orchestrator and nodes does not grow with the number of requests")
  func questions() async throws {
    try await withTopology(yaml: Self.buttons) { topology in
      let client = try TopologyClient(
        topology: topology.topology, control: topology.control,
        answerTimeout: TopologyHarness.clientTimeout)
      defer { client.close() }
      func ask(_ count: Int) async throws -> TopologyDirectory {
        var last = try await client.directory()
        for _ in 1..<count { last = try await client.directory() }
        return last
      }
      let directory = try await ask(300)
      let processes = [directory.pid] + directory.nodes.compactMap(\.pid)
      #expect(processes.count == 3)
      let before = try processes.map(Self.memory)
      // Each question is a message to the orchestrator and to both nodes. If each message leaked
      // its memory, each process would grow by about a kilobyte per question.
      _ = try await ask(2_000)
      for (process, before) in zip(processes, before) {
        let grown = try Self.memory(of: process) - before
        #expect(grown < 1_000_000, "process \(process) of \(processes), from \(before)")
      }
    }
  }
}
