import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("The verb 'run --web'", .timed)
struct RunWebPageTests {
  private static let yaml = """
    topology: gates
    program: TestNodes
    nodes: { gate: { machine: Gate } }
    """

  /// Runs the topology with its page, and calls back once the address is known.
  private func run(
    _ body: (CommandLineTool, LaunchedProgram, UInt16) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.yaml, to: "gates.yaml")
      let program = try tool.start(["run", "--web", "--plain", "gates.yaml"])
      let port: UInt16? = try await poll(every: .milliseconds(10), within: .seconds(60)) {
        program.errorText.split(separator: "http://127.0.0.1:").dropFirst().first.flatMap {
          UInt16($0.prefix { $0.isNumber })
        }
      }
      let found = try #require(port, "\(program.outputText)\(program.errorText)")
      try await body(tool, program, found)
    }
  }

  /// Waits until the port is closed.
  private func expectClosed(_ port: UInt16) async throws {
    let isClosed: Bool? = try await poll(every: .milliseconds(20), within: .seconds(60)) {
      do {
        _ = try await WebClient(port: port).get("/")
        return nil
      } catch {
        return true
      }
    }
    #expect(isClosed == true)
  }

  @Test("'run --web' serves a page of the run until the run ends")
  func page() async throws {
    try await run { tool, program, port in
      #expect(program.errorText.contains("/#token="))
      let page = try await WebClient(port: port).get("/")
      #expect(page.status == 200 && page.body.contains("<title>"))
      #expect(try await program.waitForOutput(containing: "gates: 1 node running"))
      program.signal(.interrupt)
      try await tool.end(of: program)
      try await expectClosed(port)
    }
  }

  @Test("A killed 'run --web' leaves no open port behind")
  func killed() async throws {
    try await run { _, program, port in
      program.signal(.kill)
      try await expectClosed(port)
    }
  }
}
