import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Nodes that cannot start", .timed)
struct NodeStartTests {
  /// Writes a node program that answers one description and is not executable afterwards.
  private func vanishingProgram(in tool: CommandLineTool) throws {
    let script = """
      #!/bin/sh
      "\(CommandLineTool.products)/TestNodes" "$@"
      chmod -x "$0"
      """
    try tool.directory.write(script, to: "vanishing", mode: 0o700)
  }

  @Test("Nodes whose program cannot be executed fail with the reason, and all other nodes run")
  func manySpawns() async throws {
    try await CommandLineTool.launching { tool in
      try vanishingProgram(in: tool)
      let nodes = (0..<30).map { index in
        "  n\(index): { machine: Button\(index.isMultiple(of: 2) ? ", program: ./vanishing, restart: { policy: never }" : "") }\n"
      }
      try tool.directory.write(
        "topology: ward\nprogram: TestNodes\ntimeouts: { start: 60s, stop: 60s }\nnodes:\n"
          + nodes.joined(), to: "ward.yaml")
      let up = try await tool.run("up", "--wait", "ward.yaml", within: .seconds(60), code: 1)
      #expect(up.error.contains("ward: 15 of 30 nodes failed; "), "\(up)")
      let client = try TopologyClient(
        topology: "ward",
        control: RuntimeDirectories(topology: "ward", roots: tool.directory.roots)
          .endpoint(.control))
      defer { client.close() }
      for (index, node) in try await client.directory().nodes.enumerated() {
        if index.isMultiple(of: 2) {
          #expect(node.phase == "failed" && node.pid == nil)
          #expect(
            node.reason?.contains("/vanishing': Permission denied; make the file executable")
              == true, "\(node.reason ?? "")")
        } else {
          #expect(node.isRunning, "\(node)")
        }
      }
      #expect(tool.directory.processes.count == 16)
      try await tool.run("down", code: 0)
      #expect(tool.directory.processes.isEmpty && tool.directory.leftoverPaths.isEmpty)
    }
  }

  @Test("A node whose hello frame reports an error fails permanently with that error as its reason")
  func problem() async throws {
    try await CommandLineTool.launching { tool in
      // The process is a shell that only waits. The test sends the node's hello itself.
      let script = """
        #!/bin/sh
        [ "$1" = run ] && exec sleep 60
        exec "\(CommandLineTool.products)/TestNodes" "$@"
        """
      try tool.directory.write(script, to: "mute", mode: 0o700)
      let yaml = """
        topology: ward
        program: ./mute
        nodes: { patient: { machine: Button, restart: { policy: always }, required: true } }
        timeouts: { start: 60s }
        """
      try tool.directory.write(yaml, to: "ward.yaml")
      let run = try tool.start(["run", "--plain", "ward.yaml"])
      let directories = try RuntimeDirectories(topology: "ward", roots: tool.directory.roots)
      let client = try TopologyClient(topology: "ward", control: directories.endpoint(.control))
      defer { client.close() }
      let spawned: NodeInformation? = try await poll(within: .seconds(20)) {
        // The orchestrator may not be listening yet.
        let node = try? await client.directory(fresh: false)[node: "patient"]
        return node?.pid == nil ? nil : node
      }
      let node = try #require(spawned, "\(run.errorText)")
      let description = try #require(try await describe("patient", client))
      let hello = NodeHello(
        node: "patient", pid: try #require(node.pid), incarnation: 1, description: description,
        failure: "its journal is damaged")
      let control = try Socket(.dealer, in: Context())
      try control.setRoutingID("node/patient")
      try control.connect(directories.endpoint(.control))
      control.send(
        FrameHeader(.hello, incarnationOrSession: 1), body: try JSONValue(encoding: hello).bytes)
      control.setLinger(milliseconds: 1000)
      #expect(try await run.waitForExit(within: .seconds(20)) == .exited(code: 1))
      #expect(
        run.errorText.contains("required node 'patient' failed: its journal is damaged"),
        "\(run.errorText)")
    }
  }

  private func describe(
    _ node: String, _ client: TopologyClient
  ) async throws -> MachineDescription? {
    guard case .description(let description) = try await client.command(.describe(node: node))
    else { return nil }
    return description
  }
}
