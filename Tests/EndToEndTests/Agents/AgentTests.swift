import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import PipeSupervision
import TestNodes
import TestTraits
import Testing

@Suite("Nodes that agents start", .timed)
struct AgentTests {
  /// A pipe of numbers from a source to a sink, and a composite of two parties that synchronize.
  static let hall = """
    topology: ward
    program: TestNodes
    nodes:
      source: { machine: Source, restart: { max: 100, backoff: { initial: 20ms } } }
      sink:
        { machine: Sink, parameters: { work: 1000 },
          restart: { max: 100, backoff: { initial: 20ms } } }
      left: { machine: Party, restart: { max: 100, backoff: { initial: 20ms } } }
      right: { machine: Party, restart: { max: 100, backoff: { initial: 20ms } } }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    pipes:
      - { from: source.out, to: sink.in, name: numbers }
      - { from: sink, when: counting, to: pair, send: meet, name: meetings }
    """
  static let nodes = ["source", "sink", "left", "right", "pair"]

  private func untilStarted(
    _ node: String, again incarnation: UInt64, _ ward: DetachedTopology
  ) async throws {
    try await ward.await("\(node) is another process") {
      $0[node: node]?.isRunning == true && $0[node: node]?.incarnation == incarnation
    }
  }

  @Test("Every event arrives exactly once, whichever process, agent or orchestrator is killed")
  func kills() async throws {
    try await AgentTopology.with(Self.hall, nodes: Self.nodes) { agents in
      let ward = agents.topology
      try await ward.startNumbers()
      // A process is killed on its host: its agent reports how it ended.
      try await ward.waitUntilNumbersArrive(200)
      let sink = try #require(try await ward.pids()["sink"])
      #expect(kill(sink, SIGKILL) == 0)
      try await untilStarted("sink", again: 2, ward)
      #expect(try ward.log("sink").contains { $0.contains("ended: killed by SIGKILL") })
      // The process is killed by a verb.
      try await ward.run("kill", "pair")
      try await untilStarted("pair", again: 2, ward)
      // An agent is killed: its node ends with it, and the next agent starts the node again.
      for node in ["sink", "left"] {
        try await ward.waitUntilNumbersArrive(200)
        let process = try #require(try await ward.pids()[node])
        let former = try #require(agents.agents[node])
        former.signal(.kill)
        #expect(try await former.waitForExit(within: .seconds(10)) != nil)
        let isGone: Bool? = try await poll(within: .seconds(10)) {
          ward.alive([process]).isEmpty ? true : nil
        }
        #expect(isGone == true)
        try agents.startAgent(of: node)
        try await untilStarted(node, again: node == "sink" ? 3 : 2, ward)
      }
      // The orchestrator is killed or terminated: the nodes continue, and the next orchestrator
      // adopts them.
      for signal in [Signal.kill, .terminate, .kill] {
        try await ward.waitUntilNumbersArrive(200)
        let before = try await ward.pids()
        agents.orchestrator.signal(signal)
        let end = try await agents.orchestrator.waitForExit(within: .seconds(10))
        #expect(end == (signal == .kill ? .signalled(number: SIGKILL) : .exited(code: 0)))
        #expect(ward.alive(before.values).count == before.count)
        try agents.startOrchestrator()
        try await ward.await("all are adopted", \.isRunning)
        #expect(try await ward.pids() == before)
      }
      let count = try await ward.endNumbers()
      try await ward.waitUntilAllMet(count)
      // The last orchestrator supervises the nodes.
      try await ward.run("restart", "source")
      try await untilStarted("source", again: 2, ward)
      try await ward.sendNumbers(10)
      try await ward.waitUntilAllMet(count + 10)
    }
  }

  @Test("An orchestrator that lost its state uses incarnation numbers above its agents' numbers")
  func lostState() async throws {
    try await AgentTopology.with(Self.hall, nodes: Self.nodes) { agents in
      let ward = agents.topology
      try await ward.run("restart", "sink")
      try await untilStarted("sink", again: 2, ward)
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive(200)
      agents.orchestrator.signal(.kill)
      #expect(try await agents.orchestrator.waitForExit(within: .seconds(10)) != nil)
      let state = try ward.directories.state
      for entry in FileSystem.entryNames(of: state) where !["journals", "logs"].contains(entry) {
        FileSystem.removeTree(state + "/" + entry)
      }
      try agents.startOrchestrator()
      try await untilStarted("sink", again: 3, ward)
      try await untilStarted("source", again: 2, ward)
      try await ward.await("all run", \.isRunning)
      try await ward.waitUntilAllMet(try await ward.endNumbers())
    }
  }

  @Test("A coordinator embedded in a node is started, killed and adopted together with the node")
  func embeddedCoordinator() async throws {
    let hall = Self.hall.replacing(
      "synchronize: [meet] }", with: "synchronize: [meet], within: left }")
    let nodes = Self.nodes.filter { $0 != "pair" }
    try await AgentTopology.with(hall, nodes: nodes) { agents in
      let ward = agents.topology
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive(200)
      let before = try await ward.pids()
      #expect(before["pair"] == before["left"])
      agents.orchestrator.signal(.kill)
      #expect(try await agents.orchestrator.waitForExit(within: .seconds(10)) != nil)
      try agents.startOrchestrator()
      let adopted = try await ward.await("all are adopted", \.isRunning)
      #expect(try await ward.pids() == before)
      #expect(adopted.nodes.allSatisfy { $0.incarnation == 1 })
      try await ward.waitUntilNumbersArrive(200)
      #expect(kill(try #require(before["left"]), SIGKILL) == 0)
      try await untilStarted("left", again: 2, ward)
      try await untilStarted("pair", again: 2, ward)
      try await ward.waitUntilAllMet(try await ward.endNumbers())
    }
  }

  @Test("A terminated agent stops its node gracefully, and the next agent starts the node again")
  func leaves() async throws {
    try await AgentTopology.with(Self.hall, nodes: Self.nodes) { agents in
      let ward = agents.topology
      try await ward.startNumbers()
      for (count, node) in ["sink", "pair"].enumerated() {
        let former = try #require(agents.agents[node])
        former.signal(.terminate)
        #expect(try await former.waitForExit(within: .seconds(20)) == .exited(code: 0))
        let waiting = try await ward.await("\(node)'s agent is waited for") {
          ($0[node: node]?.reason ?? "").contains("\(NodeReport.awaitingAgent)")
        }
        #expect(waiting[node: node]?.isRunning == false)
        let log = try ward.log(node).joined(separator: "\n")
        #expect(
          log.contains("the agent is shutting down, on host 'host-of-\(node)'"), "\(count): \(log)")
        try agents.startAgent(of: node)
        try await untilStarted(node, again: 2, ward)
      }
      try await ward.waitUntilAllMet(try await ward.endNumbers())
      // A node that was stopped by a verb stays stopped.
      try await ward.run("stop", "sink")
      agents.agents["sink"]?.signal(.terminate)
      _ = try await agents.agents["sink"]?.waitForExit(within: .seconds(20))
      try agents.startAgent(of: "sink")
      try await probe(ward, "sink", "--ready", code: 1, says: "sink: stopped")
      try await ward.run("start", "sink")
      try await probe(ward, "sink", "--ready", code: 0, says: "sink: running")
    }
  }

  @Test("'journal' reads a node's journal on the node's host without the topology file")
  func journal() async throws {
    try await AgentTopology.with(Self.hall, nodes: Self.nodes) { agents in
      let ward = agents.topology
      try await ward.sendNumbers(5)
      try await ward.waitUntilAllMet(5)
      try await ward.run("stop", "sink")
      let file = try #require(FileSystem.contents(of: try ward.directories.journal(of: "sink")))
      let pod = try CommandLineTool()
      defer { pod.remove() }
      let own = try RuntimeDirectories(topology: "ward", roots: pod.directory.roots)
      try FileSystem.makeDirectories(own.journals, mode: 0o700)
      try FileSystem.replace(own.journal(of: "sink"), with: file)
      let page = try await pod.run("journal", "sink", code: 0)
      #expect(page.output.contains("machine Sink"), "\(page)")
      try await ward.run("start", "sink")
    }
  }

  /// Waits until a probe exits with this code and prints this text.
  private func probe(
    _ ward: DetachedTopology, _ arguments: String..., code: Int32, says text: String
  ) async throws {
    var last: CommandLineTool.Result?
    let hasStarted: Bool? = try await poll(every: .milliseconds(50), within: .seconds(20)) {
      let started = try ward.tool.start(["probe"] + arguments)
      let result = try await ward.tool.result(of: started)
      last = result
      return result.code == code && result.output == text + "\n" ? true : nil
    }
    try #require(hasStarted == true, "\(String(describing: last))")
  }

  @Test(
    "A node's second agent starts a process only after the first agent's process has ended")
  func displaced() async throws {
    try await AgentTopology.with(Self.hall, nodes: Self.nodes) { agents in
      let ward = agents.topology
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive(200)
      let former = try #require(try agents.startAgent(of: "sink"))
      #expect(try await former.waitForExit(within: .seconds(20)) == .exited(code: 1))
      #expect(former.errorText.contains("another agent of node 'sink' has replaced this agent"))
      try await untilStarted("sink", again: 2, ward)
      try await ward.waitUntilAllMet(try await ward.endNumbers())
    }
  }

  @Test(
    "Nodes behind a network partition are reported as lost and get no second process",
    .needsNetworkNamespace)
  func partition() async throws {
    try await NetworkPair.with { tool, pair in
      let near = AgentTopology.ProcessLocation(
        prefix: pair.nearPrefix, address: NetworkPair.address)
      var locations = Dictionary(uniqueKeysWithValues: Self.nodes.map { ($0, near) })
      locations["orchestrator"] = near
      for node in ["sink", "right"] {
        locations[node] = .init(prefix: pair.farPrefix, address: NetworkPair.otherAddress)
      }
      var inside = tool
      inside.prefix = pair.nearPrefix
      try await AgentTopology.with(Self.hall, nodes: Self.nodes, locations: locations, tool: inside)
      {
        agents in
        let ward = agents.topology
        try await ward.startNumbers()
        try await ward.waitUntilNumbersArrive(200)
        let before = try await ward.pids()
        try await pair.connect(false)
        try await ward.await("they are lost") {
          $0[node: "sink"]?.phase == "lost" && $0[node: "right"]?.phase == "lost"
        }
        // A node that ends during the partition is reported when the partition is over.
        #expect(kill(try #require(before["right"]), SIGKILL) == 0)
        try await pair.connect(true)
        try await untilStarted("right", again: 2, ward)
        try await ward.await("the other one is heard") { $0[node: "sink"]?.isRunning == true }
        let after = try await ward.pids()
        #expect(after["sink"] == before["sink"])
        #expect(try ward.log("right").contains { $0.contains("ended: killed by SIGKILL") })
        try await ward.waitUntilAllMet(try await ward.endNumbers())
      }
    }
  }

  @Test("Probes report whether an agent's node runs and whether the topology runs")
  func probes() async throws {
    try await CommandLineTool.launching { tool in
      let agents = try AgentTopology(Self.hall, nodes: Self.nodes, tool: tool)
      let ward = agents.topology
      try await probe(ward, code: 0, says: "ward: starting")
      try await probe(ward, "--ready", code: 1, says: "ward: starting")
      let waiting = try await ward.directory()
      #expect(waiting.nodes.allSatisfy { $0.reason == "\(NodeReport.awaitingAgent)" })
      // The directory for the node's journal does not exist on its host.
      FileSystem.removeTree(try ward.directories.journals)
      try agents.startAgent(of: "sink")
      // There is one agent, so the probe asks that agent.
      try await probe(ward, code: 0, says: "sink: ready")
      try await probe(ward, "--ready", code: 1, says: "sink: ready")
      for node in Self.nodes where node != "sink" { try agents.startAgent(of: node) }
      try await probe(ward, "sink", "--ready", code: 0, says: "sink: running")
      let several = try await tool.run("probe", code: 2)
      #expect(
        several.error.contains(
          "several agents run on this host; name one of left, pair, right, sink, source"))
      #expect(try await ward.run("ps").output.contains("(host-of-left)"))
      // A suspended agent does not answer.
      agents.agents["sink"]?.signal(.stop)
      let silent = try await tool.run("probe", "sink", "--timeout", "200ms", code: 1)
      #expect(silent.error.contains("node 'sink' ") && silent.error.contains(" 200 ms"))
      agents.agents["sink"]?.signal(.resume)
      try await ward.run("down")
    }
  }

  @Test("An agent without a key, or with the key of another node, is refused")
  func strangers() async throws {
    try await AgentTopology.with(Self.hall, nodes: Self.nodes) { agents in
      let ward = agents.topology
      let tool = ward.tool
      let keys = tool.directory.path + "/keys/"
      let (right, control) = try KeyFile.readWithControl(keys + AgentKeys.keyPairFile(of: "right"))
      try KeyFile.write(CurveKeyPair.make(), for: control, to: keys + "stranger.key")
      try KeyFile.write(right, for: control, to: keys + "left-by-right.key")
      for key in ["stranger", "left-by-right"] {
        let agent = try tool.start(["agent", "left", "--key", keys + key + ".key"])
        let isTold: Bool? = try await poll(within: .seconds(20)) {
          let orchestratorOutput = agents.orchestrator.errorText + agents.orchestrator.outputText
          return orchestratorOutput.contains(
            key == "stranger"
              ? "rejected a peer" : " to 'agent/left' (")
            ? true : nil
        }
        #expect(isTold == true, "\(agents.orchestrator.errorText)")
        #expect(!agent.errorText.contains("connected to the orchestrator"), "\(agent.errorText)")
        agent.signal(.terminate)
        #expect(try await agent.waitForExit(within: .seconds(10)) == .exited(code: 0))
      }
      let left = try await ward.directory()[node: "left"]
      #expect(left?.incarnation == 1 && left?.isRunning == true)
    }
  }

  @Test("If another program uses the agents' port, the error says what to do")
  func portInUse() async throws {
    try await AgentTopology.with(Self.hall, nodes: Self.nodes) { agents in
      let tool = agents.tool
      try tool.directory.write(
        Self.hall.replacing("topology: ward", with: "topology: other"), to: "other.yaml")
      try AgentKeys.make(
        of: Self.nodes, for: "other", at: "tcp://localhost:1",
        in: tool.directory.path + "/keys-of-other")
      let result = try await tool.end(
        of: tool.start([
          "run", "other.yaml", "--deployment", "ward-deployment.yaml", "--keys", "keys-of-other",
          "--plain",
        ]), code: 1)
      #expect(result.error.contains("cannot listen on port"), "\(result)")
      #expect(result.error.contains("('port' in the deployment file)"), "\(result)")
    }
  }

  @Test(
    "A missing key file, or a key file of another topology, causes an error that says what to do")
  func badInput() async throws {
    try await CommandLineTool.launching { tool in
      try tool.directory.write(Self.hall, to: "ward.yaml")
      try tool.directory.write(AgentTopology.deployment(port: 20_000), to: "d.yaml")
      try AgentKeys.make(
        of: ["source"], for: "ward", at: "tcp://localhost:20000", in: tool.directory.path + "/keys")
      let run = ["run", "ward.yaml", "--deployment", "d.yaml", "--plain"]
      func error(_ arguments: [String]) async throws -> String {
        try await tool.end(of: tool.start(arguments), code: 2).error
      }
      #expect(try await error(run).contains("--keys DIRECTORY"))
      #expect(
        try await error(run + ["--keys", "keys"]).contains(
          "keys/sink.agent' does not exist"
        ))
      #expect(
        try await error(run + ["--keys", "nowhere"]).contains("nowhere/control.key"))
      let other = try await error(run + ["--keys", "keys", "--name", "other"])
      #expect(other.contains("are for topology 'ward', not for 'other'"), "\(other)")
      try KeyFile.write(CurveKeyPair.make(), to: tool.directory.path + "/keys/control.key")
      #expect(
        try await error(run + ["--keys", "keys"]).contains("'keys' do not match"))
      #expect(
        try await error(["run", "ward.yaml", "--keys", "keys"]).contains("'engine: kubernetes'"))
      #expect(try await error(["agent", "sink"]).contains("--key"))
      #expect(
        try await error(["agent", "sink", "--key", "keys/control.key"]).contains(
          "does not name the orchestrator"))
      #expect(
        try await error(["agent", "sink", "--key", "keys/source.agent.key", "--address", "here"])
          .contains("'here' is not a numeric IPv4 address"))
    }
  }
}
