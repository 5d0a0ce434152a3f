import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Deployed nodes whose orchestrator is killed", .timed)
struct DeployedAdoptionTests {
  /// A pipe between two placements, and a composite that takes one synchronized event for each
  /// number that the pipe delivers.
  static let hall =
    DeployedTopologyTests.numbers.replacing(
      "pipes:",
      with: """
          left: { machine: Party, place: front }
          right: { machine: Party, place: back }
        composites:
          pair: { components: [left, right], synchronize: [meet] }
        pipes:
          - { from: sink, when: counting, to: pair, send: meet, name: meetings }
        """
    ).replacing("work: 300", with: "work: 1000")

  private func counted(_ count: Int) throws -> JSONValue {
    try JSONValue(encoding: Sink.State.counting(last: count, count: count, wrong: 0))
  }

  private func control(of ward: DetachedTopology) throws -> String {
    let place = try #require(FileSystem.contents(of: try ward.directories.controlEndpointFile))
    return try #require(try JSONValue(parsing: place)["endpoint"]?.string)
  }

  @Test(
    "Deployed nodes keep their keys when they are adopted repeatedly under load"
  )
  func adopts() async throws {
    try await DetachedTopology.with(Self.hall, deployment: DeployedTopologyTests.lab) { ward in
      let directories = try ward.directories
      let files = [directories.controlKeyFile, directories.clientKeyFile]
      let keys = files.map { FileSystem.contents(of: $0) }
      let copy = ward.tool.directory.path + "/copy.key"
      try KeyFile.write(KeyFile.read(directories.clientKeyFile), to: copy)
      let control = try control(of: ward)
      let controlKey = try KeyFile.read(directories.controlKeyFile).publicKey.text
      let before = try await ward.directory()
      let pids = try await ward.pids()
      #expect(pids.count == 5)
      try await ward.startNumbers()
      for _ in 0..<2 {
        try await ward.waitUntilNumbersArrive()
        try await ward.killOrchestrator()
        #expect(ward.alive(pids.values) == Set(pids.values))
        let up = try await ward.up()
        #expect(up.hasPrefix("ward: running, 5 nodes adopted, orchestrator pid"), "\(up)")
        #expect(try await ward.pids() == pids)
        #expect(files.map { FileSystem.contents(of: $0) } == keys)
      }
      let count = try await ward.endNumbers()
      let after = try await ward.waitUntilAllMet(count)
      for node in after.nodes {
        #expect(node.incarnation == 1 && node.restarts == 0, "\(node)")
        #expect(node.inbox == before[node: node.name]?.inbox)
        #expect(node.key == before[node: node.name]?.key)
      }
      // Connects from the orchestrator's host with a copy of the keys.
      let remote = try TopologyClient(
        topology: "ward", control: control,
        keys: ClientKeys(.init(path: copy, orchestratorKey: controlKey)),
        answerTimeout: TopologyHarness.clientTimeout)
      defer { remote.close() }
      try await remote.send("source", Source.Event.go(count: 10))
      try await ward.waitUntilAllMet(count + 10)

      // The nodes are supervised again, and all other processes find a restarted node.
      for victim in ["sink", "pair", "source"] {
        try await ward.run("kill", victim)
        try await ward.await("\(victim) is another process") {
          $0[node: victim]?.isRunning == true && $0[node: victim]?.incarnation == 2
        }
      }
      try await ward.sendNumbers(10)
      try await ward.waitUntilAllMet(count + 20)
      try await ward.run("down")
      #expect(ward.tool.directory.processes.isEmpty)
      #expect(FileSystem.entryNames(of: directories.runtime).isEmpty)
    }
  }

  /// Waits until a suspended process has unread data at a port.
  private func untilUnread(at inbox: String, _ ward: DetachedTopology) async throws {
    let port = try #require(inbox.split(separator: ":").last.flatMap { UInt16($0) })
    let place = ":" + String(65_536 + UInt32(port), radix: 16, uppercase: true).dropFirst()
    // Waits for more bytes than a keep-alive message has. In /proc/net/tcp, the second column is
    // the local address, and the fifth column contains the number of unread bytes.
    let isUnread: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
      (FileSystem.text(of: "/proc/net/tcp") ?? "").split(separator: "\n").contains { line in
        let words = line.split(separator: " ")
        guard words.count > 4, words[1].hasSuffix(place) else { return false }
        return UInt(words[4].split(separator: ":")[1], radix: 16).map { $0 > 80 } == true
      } ? true : nil
    }
    #expect(isUnread == true)
  }

  @Test(
    "A restarted node answers a request in flight, even if a new orchestrator restarted the node",
    arguments: [false, true])
  func requestUnderWay(isOrchestratorKilled: Bool) async throws {
    try await DetachedTopology.with(Self.hall, deployment: DeployedTopologyTests.lab) { ward in
      let client = try ward.client()
      defer { client.close() }
      try await client.send("source", Source.Event.go(count: 10))
      // The client has completed its queries for this request.
      try await ward.run("restart", "left")
      let source = try #require(try await ward.directory()[node: "source"])
      let pid = try #require(source.pid)
      #expect(kill(pid, SIGSTOP) == 0)
      async let answer = client.send(
        "source", Source.Event.go(count: 10), timeout: .seconds(60))
      try await untilUnread(at: source.inbox, ward)
      if isOrchestratorKilled { try await ward.killOrchestrator() }
      #expect(kill(pid, SIGKILL) == 0)
      if isOrchestratorKilled { try await ward.up() }
      guard case .accepted = try await answer else {
        Issue.record("it was not taken")
        return
      }
      #expect(try await ward.directory()[node: "source"]?.incarnation == 2)
      try await ward.waitUntilAllMet(20)
    }
  }

  @Test("Deployed nodes continue even if the next orchestrator is killed during the adoption")
  func killedAgain() async throws {
    try await DetachedTopology.with(Self.hall, deployment: DeployedTopologyTests.lab) { ward in
      let pids = try await ward.pids()
      let directories = try ward.directories
      try await ward.startNumbers()
      var former = try #require(RunningTopology.find(directories)?.pid)
      try await ward.killOrchestrator(former)
      for round in 0..<6 {
        let place = FileSystem.contents(of: directories.controlEndpointFile)
        let lineCount = try ward.logs().count
        let up = try ward.tool.start(
          ["up", "-d", "ward.yaml", "--deployment", "ward-deployment.yaml"])
        let pid: Int32? = try await poll(
          every: .milliseconds(1), within: .seconds(20), of: ward.tool.directory
        ) {
          // Kills the new orchestrator as soon as it has the lock, when its socket is bound, or
          // when it has greeted the nodes. For a moment, the lock file still shows the former
          // process.
          guard let pid = RunningTopology.find(directories)?.pid, pid != former else { return nil }
          if round % 3 == 0 { return pid }
          guard FileSystem.contents(of: directories.controlEndpointFile) != place else {
            return nil
          }
          guard round % 3 == 2 else { return pid }
          return try ward.logs().count > lineCount ? pid : nil
        }
        former = try #require(pid)
        try await ward.killOrchestrator(former)
        _ = try await up.waitForExit(within: .seconds(20))
      }
      #expect(try await ward.up().hasPrefix("ward: running, 5 nodes adopted"))
      #expect(try await ward.pids() == pids)
      try await ward.waitUntilAllMet(try await ward.endNumbers())
    }
  }

  @Test("The output of an adopted node is written to its log")
  func output() async throws {
    let ward = """
      topology: ward
      program: TestNodes
      nodes:
        patient: { machine: Fragile, place: front }
        nurse: { machine: Button, place: back }
      pipes:
        - { from: nurse, when: pressed, to: patient, send: touch, name: bell }
      """
    try await DetachedTopology.with(ward, deployment: DeployedTopologyTests.lab) { ward in
      let pids = try await ward.pids()
      try await ward.killOrchestrator()
      try await ward.up()
      #expect(try await ward.pids() == pids)
      let client = try ward.client()
      defer { client.close() }
      try await client.send("patient", Fragile.Event.shout(lines: 20))
      let isLogged: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
        try ward.log("patient").last?.hasSuffix(" out line 20") == true ? true : nil
      }
      let log = try ward.log("patient")
      #expect(isLogged == true, "\(log)")
    }
  }

  @Test(
    "A node that is killed while no orchestrator runs is restarted, and its old key is refused")
  func killedMeanwhile() async throws {
    try await DetachedTopology.with(Self.hall, deployment: DeployedTopologyTests.lab) { ward in
      let pids = try await ward.pids()
      let former = try KeyFile.read(try ward.directories.keyFile(of: "sink"))
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await ward.killOrchestrator()
      let victims = ["sink", "left"].compactMap { pids[$0] }
      for pid in victims { kill(pid, SIGKILL) }
      let areGone: Bool? = try await poll(within: .seconds(20)) {
        ward.alive(victims).isEmpty ? true : nil
      }
      #expect(areGone == true)
      let up = try await ward.up()
      #expect(up.hasPrefix("ward: running, 3 nodes adopted"), "\(up)")
      let after = try await ward.waitUntilAllMet(try await ward.endNumbers())
      for node in after.nodes {
        let isNew = ["sink", "left"].contains(node.name)
        #expect((node.pid != pids[node.name]) == isNew, "\(node)")
        #expect(node.incarnation == (isNew ? 2 : 1), "\(node)")
      }
      let key = try KeyFile.read(try ward.directories.controlKeyFile).publicKey
      let revenant = try KeyedPeer(
        WireName.node("sink"), at: PeerEndpoint(try control(of: ward), key: key, own: former),
        in: ward.tool.directory)
      try await revenant.exchangeFrames { _ in
        let log = try? ward.log("orchestrator")
        return log?.contains { $0.contains("'\(former.publicKey)'") } == true
      }
      #expect(revenant.received == 0 && revenant.connected == 0)
    }
  }

  /// A reason why the next orchestrator cannot listen at the former orchestrator's address.
  enum RejectionCase: CaseIterable {
    case takenPort, noKey, openKey, noPlace
  }

  @Test(
    "Nodes are restarted if the next orchestrator cannot use the former orchestrator's address",
    arguments: RejectionCase.allCases)
  func obstacle(_ obstacle: RejectionCase) async throws {
    try await DetachedTopology.with(
      DeployedTopologyTests.numbers, deployment: DeployedTopologyTests.lab
    ) { ward in
      try await ward.sendNumbers(20)
      let pids = try await ward.pids()
      let directories = try ward.directories
      try await ward.killOrchestrator()
      #expect(ward.alive(pids.values) == Set(pids.values))
      let context = Context()
      let other = try Socket(.router, in: context)
      defer { other.close() }
      let reason: String
      switch obstacle {
      case .takenPort:
        let control = try control(of: ward)
        try other.bind(control)
        reason = "cannot listen on the port of the former orchestrator: bind of '\(control)'"
      case .noKey:
        unlink(directories.controlKeyFile)
        reason = "cannot read the key pair of the former orchestrator: the key file cannot be used"
      case .openKey:
        chmod(directories.controlKeyFile, 0o644)
        reason = "cannot read the key pair of the former orchestrator: the key file"
      case .noPlace:
        unlink(directories.controlEndpointFile)
        reason = "the endpoint of the former orchestrator is unknown"
      }
      let up = try await ward.up()
      #expect(up.hasPrefix("ward: running, orchestrator pid"), "\(up)")
      #expect(ward.alive(pids.values).isEmpty)
      let log = try ward.log("sink")
      #expect(log.contains { $0.contains("not adopted: \(reason)") }, "\(log)")
      let last = try counted(20)
      try await ward.await("what was recorded goes on") {
        $0[node: "sink"]?.status?.state == last
      }
    }
  }

  @Test(
    "A node with a missing key file or a changed address is restarted, and other nodes continue"
  )
  func otherPlace() async throws {
    try await DetachedTopology.with(
      Self.hall, deployment: DeployedTopologyTests.lab
    ) { ward in
      var ward = ward
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      var pids = try await ward.pids()
      try await ward.killOrchestrator()
      try ward.deploy(
        by: DeployedTopologyTests.lab.replacing("127.0.0.2", with: "127.0.0.4"))
      #expect(try await ward.up().hasPrefix("ward: running, 3 nodes adopted"))
      for node in try await ward.directory().nodes {
        let isMoved = ["sink", "right"].contains(node.name)
        #expect((node.pid != pids[node.name]) == isMoved, "\(node)")
        if isMoved { #expect(node.inbox.hasPrefix("tcp://127.0.0.4:"), "\(node)") }
      }
      #expect(
        try ward.log("sink").contains {
          $0.contains("\(ProcessRecord.Difference.place(wanted: "127.0.0.4"))")
        })

      pids = try await ward.pids()
      try await ward.killOrchestrator()
      unlink(try ward.directories.keyFile(of: "right"))
      #expect(try await ward.up().hasPrefix("ward: running, 4 nodes adopted"))
      #expect(try await ward.pids()["sink"] == pids["sink"])
      try await ward.waitUntilAllMet(try await ward.endNumbers())
    }
  }

  @Test("A coordinator embedded in a node is adopted together with the node")
  func embeddedCoordinator() async throws {
    let hall = Self.hall.replacing(
      "synchronize: [meet] }", with: "synchronize: [meet], within: left }")
    try await DetachedTopology.with(hall, deployment: DeployedTopologyTests.lab) { ward in
      let pids = try await ward.pids()
      #expect(pids["pair"] == pids["left"])
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await ward.killOrchestrator()
      #expect(try await ward.up().hasPrefix("ward: running, 5 nodes adopted"))
      #expect(try await ward.pids() == pids)
      try await ward.waitUntilNumbersArrive()
      try await ward.run("kill", "left")
      try await ward.waitUntilAllMet(try await ward.endNumbers())
    }
  }

  @Test(
    "The advice for orphaned nodes names the deployment, and 'up' without a deployment is refused")
  func advice() async throws {
    try await DetachedTopology.with(
      DeployedTopologyTests.numbers, deployment: DeployedTopologyTests.lab
    ) { ward in
      let pids = try await ward.pids()
      try await ward.killOrchestrator()
      let path = ward.tool.directory.path
      let up = "'orchestrator up \(path)/ward.yaml --deployment \(path)/ward-deployment.yaml'"
      let status = try await ward.run("status", code: 3)
      #expect(
        status.output.hasPrefix("ward: orphaned: 2 nodes ") && status.output.contains(up),
        "\(status)")
      let table = try await ward.run("ps", code: 3)
      #expect(table.error.contains(up), "\(table)")
      let list = try await ward.run("ls", "-o", "json")
      #expect(list.output.contains("\(path)/ward-deployment.yaml"), "\(list)")
      // Each attempt is refused, and the advice stays the same.
      for verb in [["up", "--wait"], ["run", "--plain"], ["up", "-d"]] {
        let refused = try await ward.run(verb + ["ward.yaml"], code: 2)
        #expect(refused.error.contains(up), "\(refused)")
      }
      #expect(ward.alive(pids.values) == Set(pids.values))
      #expect(try await ward.up().hasPrefix("ward: running, 2 nodes adopted"))
      try await ward.killOrchestrator()
      let down = try await ward.run("down")
      #expect(down.output.hasSuffix("2 nodes ended\n"), "\(down)")
      #expect(FileSystem.entryNames(of: try ward.directories.runtime).isEmpty)
    }
  }
}
