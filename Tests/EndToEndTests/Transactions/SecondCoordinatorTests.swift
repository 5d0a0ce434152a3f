import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The single process of a coordinator", .timed, .enabled(if: RecordedNodes.arePossible))
struct SecondCoordinatorTests {
  private static let parties = """
    topology: parties
    program: TestNodes
    nodes:
      left: { machine: Party }
      right: { machine: Party }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    timeouts: { heartbeat: 60s }
    """

  private static func meet(_ client: TopologyClient) async throws {
    let reply = try await client.synchronize(
      "pair", Party.Event.meet, mode: .await(.seconds(60)))
    #expect(reply.isCommitted, "\(reply)")
  }

  @Test("A coordinator's second process does not run while the first exists, even if suspended")
  func lock() async throws {
    try await DetachedTopology.with(Self.parties, name: "parties") { parties in
      let client = try parties.client()
      defer { client.close() }
      try await Self.meet(client)
      let pid = try #require(try await parties.pids()["pair"])
      kill(pid, SIGSTOP)
      defer { kill(pid, SIGCONT) }

      let directories = try parties.directories
      let place = "ipc://" + parties.tool.directory.path
      let own = NodeArguments(
        topology: "parties", node: "pair", content: .composites(["pair"]),
        control: place + "/c", inbox: place + "/i", feed: place + "/f", incarnation: 2,
        journal: .init(path: directories.journal(of: "pair"), durability: .process))
      let second = try parties.tool.start(
        program: CommandLineTool.products + "/TestNodes", own.arguments)
      let result = try await parties.tool.end(of: second, within: .seconds(20), code: 1)
      let error = JournalError.locked(path: directories.journal(of: "pair"), pid: pid)
      #expect(result.error.contains("\(error)"), "\(result)")

      kill(pid, SIGCONT)
      try await Self.meet(client)
      try await parties.run("down")
    }
  }
}
