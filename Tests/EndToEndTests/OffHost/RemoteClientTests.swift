import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Clients of a topology on another host", .timed)
struct RemoteClientTests {
  @Test("Every verb works with a copy of the key file, or says on which host to run the verb")
  func verbs() async throws {
    try await OtherHost.with(RemoteVerbs.visitors, deployment: DeployedTopologyTests.lab) {
      try await RemoteVerbs(ward: $0, host: $1).run()
    }
  }

  @Test("A program attaches with only the key file, or with an endpoint that it specifies")
  func programs() async throws {
    try await OtherHost.with(RemoteVerbs.visitors, deployment: DeployedTopologyTests.lab) {
      ward, host in
      for endpoint in [nil, try host.control.endpoint] {
        let client = try TopologyClient.attach(to: endpoint, key: host.key)
        defer { client.close() }
        #expect(client.topology == "ward")
        try await client.send("button", Button.Event.press)
        let states = try await client.states(of: ["button"])
        #expect(await states.first { _ in true }?.node == "button")
      }
      let program = CommandLineTool.products + "/TestNodes"
      let words = ["--key", OtherHost.key]
      let view = try host.tool.start(
        program: program, ["view", "ButtonView", "button", "-n", "1"] + words)
      #expect(
        try await host.tool.end(of: view, within: .seconds(60)).output.contains("pressed 2 times"))
      let census = try host.tool.start(program: program, ["monitor", "Census"] + words)
      try await host.await("gate 1.0", of: census)
      let inspector = try await InspectorProgram(host.tool, ["metrics"] + words)
      try await inspector.await("piperuntime_up{topology=\"ward\"} 1")
      #expect(try await !inspector.metrics().contains { $0.contains("node_cpu_seconds_total{") })
      try await inspector.stop(host.tool)
      try await ward.run("down")
      try await host.tool.end(of: census, within: .seconds(60))
    }
  }

  @Test("The page of a topology on another host shows the topology's states and logs")
  func page() async throws {
    try await OtherHost.with(RemoteVerbs.visitors, deployment: DeployedTopologyTests.lab) {
      ward, host in
      let inspector = try await InspectorProgram(
        host.tool, ["web", "--key", OtherHost.key])
      var page = try WebVerbTests.Page(inspector)
      try await host.run("send", "gate", "open")
      try await page.await("the state") { $0.states["gate"]?["state"] == ["open": ["passed": 0]] }
      try await page.await("what the orchestrator writes") {
        $0.logLines.contains { $0["node"]?.string == "orchestrator" }
      }
      try await ward.run("down")
      try await page.await("the end") { $0.topology["running"] == false }
      try await inspector.stop(host.tool)
    }
  }

  @Test("Completion in bash offers the nodes and events of a topology on another host")
  func completion() async throws {
    try await OtherHost.with(RemoteVerbs.visitors, deployment: DeployedTopologyTests.lab) {
      _, host in
      var tool = host.tool
      tool.environment["PATH"] = CommandLineTool.products + ":/usr/bin:/bin"
      func offers(_ words: String...) async throws -> [String] {
        let line = """
          source <(orchestrator completion bash)
          COMP_WORDS=(orchestrator \(words.map { "'\($0)'" }.joined(separator: " ")))
          COMP_CWORD=\(words.count); _orchestrator; printf '%s\\n' "${COMPREPLY[@]}"
          """
        let program = try tool.start(program: "/bin/bash", ["-c", line])
        return try await tool.end(of: program, within: .seconds(60)).output
          .split(separator: "\n").map(String.init)
      }
      #expect(try await offers("send", "--key", "ward.key", "ga") == ["gate"])
      #expect(try await offers("--key", "=", "ward.key", "send", "button", "") == ["press"])
      // Bash treats a colon as a word of its own.
      let parts = try host.control.endpoint.split(separator: ":").map(String.init)
      #expect(
        try await offers(
          "--key", "ward.key", "--connect", parts[0], ":", parts[1], ":", parts[2], "send", "gat")
          == ["gate"])
      #expect(
        try await offers("send", "--connect", "tcp", ":", "//127.0.0.1", ":", "1", "ga") == [])
    }
  }

  @Test("Errors of a remote client appear within a bounded time and say what to do")
  func errors() async throws {
    try await OtherHost.with(RemoteVerbs.visitors, deployment: DeployedTopologyTests.lab) {
      ward, host in
      let (endpoint, key) = try host.control
      func fails(
        _ arguments: [String], code: Int32, with text: String,
        at location: SourceLocation = #_sourceLocation
      ) async throws {
        let program = try host.tool.start(arguments)
        let result = try await host.tool.end(
          of: program, within: .seconds(60), code: code, at: location)
        #expect(
          result.output.isEmpty && result.error.contains(text), "\(result)",
          sourceLocation: location)
      }
      let own = ["--key", OtherHost.key]
      try await fails(
        ["ps", "--connect", endpoint], code: 2, with: "--connect requires --key FILE")
      try await fails(["ps", "--connect", "here"] + own, code: 2, with: "tcp://HOST:PORT")
      try await fails(["ps", "-p", "other"] + own, code: 2, with: "belongs to topology 'ward'")
      try await fails(["ps", "--key", "nothing"], code: 2, with: "nothing")
      // An unused port: the lowest one, which only root can bind.
      try await fails(
        ["ps", "--connect", "tcp://127.0.0.3:1"] + own, code: 3, with: "no orchestrator answered")
      try await fails(
        ["ps", "--connect", "tcp://nowhere.invalid:4000"] + own, code: 3,
        with: "unknown host 'nowhere.invalid'")
      // The orchestrator's key of a former run.
      let other = try CurveKeyPair.make().publicKey.text
      try host.write("former.key", replacing: key, with: other)
      try await fails(
        ["ps", "--key", "former.key"], code: 3, with: "is not the orchestrator of the key file"
      )
      // A client that knows the endpoint and the orchestrator's key, with a key of its own that is
      // not admitted.
      let stranger = try CurveKeyPair.make()
      let path = host.tool.directory.path + "/stranger.key"
      try KeyFile.write(
        stranger, for: ControlAddress(topology: "ward", endpoint: endpoint, key: key), to: path)
      for verb in [["ps"], ["send", "button", "press"], ["logs"], ["down"]] {
        try await fails(
          verb + ["--key", path], code: 3, with: "did not admit this client within 5 s")
      }
      #expect(try await ward.directory()[node: "button"]?.status?.version == 0)
      // A node's key does not identify a client.
      try await fails(
        ["ps", "--key", try ward.directories.controlKeyFile], code: 2, with: "copy 'client.key'")
      chmod(host.key, 0o644)
      try await fails(["ps"] + own, code: 2, with: "'chmod 600 \(OtherHost.key)'")
      chmod(host.key, 0o600)
      let monitor = try host.start("monitor", "--plain")
      try await host.await("gate", of: monitor)
      let orchestrator = try #require(RunningTopology.find(try ward.directories)?.pid)
      #expect(kill(orchestrator, SIGSTOP) == 0)
      try await fails(["ps"] + own, code: 3, with: "stopped or hung")
      #expect(kill(orchestrator, SIGCONT) == 0)
      try await host.run("ps")
      #expect(monitor.exit == nil)
      try await ward.killOrchestrator()
      try await fails(["ps"] + own, code: 3, with: "no orchestrator answered")
      try await host.tool.end(of: monitor, within: .seconds(60), code: 1)
    }
  }
}
