import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

// Nodes on other hosts whose orchestrator is killed.
extension SlurmLossTests {
  private static let places = """
    engine: slurm
    address: 10.77.0.10
    places:
      front: { hosts: [fh1] }
      back: { hosts: [fh2] }
    """

  private static let restart = "restart: { max: 100, backoff: { initial: 20ms } }"

  /// A pipe and a composite across two hosts, and a node beside the orchestrator.
  private static let hall = """
    topology: ward
    program: TestNodes
    timeouts: { heartbeat: 2s }
    nodes:
      source: { machine: Source, place: front, \(restart) }
      sink: { machine: Sink, place: back, parameters: { work: 1000 }, \(restart) }
      left: { machine: Party, place: front, \(restart) }
      right: { machine: Party, place: back, \(restart) }
      clerk: { machine: Button, \(restart) }
    composites:
      pair: { components: [left, right], synchronize: [meet], within: left }
    pipes:
      - { from: source.out, to: sink.in, name: numbers }
      - { from: sink, when: counting, to: pair, send: meet, name: meetings }
    """

  @Test("Processes on other hosts are adopted without a restart, and their later exits are noticed")
  func adopts() async throws {
    try await SlurmCluster.with(Self.hall, deployment: Self.places) { ward, _ in
      let pids = try await ward.pids()
      #expect(pids.count == 6)
      try await ward.startNumbers()
      for _ in 0..<2 {
        try await ward.waitUntilNumbersArrive()
        try await ward.killOrchestrator()
        let up = try await ward.up()
        #expect(up.hasPrefix("ward: running, 6 nodes adopted"), "\(up)")
        #expect(try await ward.pids() == pids)
      }
      let count = try await ward.endNumbers()
      try await ward.waitUntilAllMet(count)
      let after = try await ward.directory()
      #expect(after.nodes.allSatisfy { $0.incarnation == 1 && $0.restarts == 0 }, "\(after)")

      for victim in ["sink", "left"] {
        try await ward.run("kill", victim)
        let restarted = try await ward.await("\(victim) is another process") {
          $0[node: victim]?.isRunning == true && $0[node: victim]?.incarnation == 2
        }
        #expect(restarted[node: victim]?.pid != pids[victim])
        #expect(processes(of: victim, ward).count == 1)
      }
      try await ward.run("stop", "right")
      #expect(processes(of: "right", ward).isEmpty)
      try await ward.run("start", "right")
      try await ward.sendNumbers(100)
      try await ward.waitUntilAllMet(count + 100)
      try await ward.killOrchestrator()
      #expect(try await ward.up().hasPrefix("ward: running, 6 nodes adopted"))
      try await ward.run("down")
      for node in ["source", "sink", "left", "right", "clerk"] {
        #expect(processes(of: node, ward).isEmpty, "\(node)")
      }
      try await ward.up()
    }
  }

  @Test("A process that is killed while no orchestrator runs is restarted, and others continue")
  func killedMeanwhile() async throws {
    try await SlurmCluster.with(Self.hall, deployment: Self.places) { ward, _ in
      let pids = try await ward.pids()
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      let victims = processes(of: "sink", ward)
      #expect(victims.count == 1)
      try await ward.killOrchestrator()
      for pid in victims.compactMap({ AdoptedProcess(pid: Int32($0) ?? 0) }) { pid.signal(.kill) }
      try await ward.up()
      try await ward.await("the sink is another process") {
        $0[node: "sink"]?.isRunning == true && $0[node: "sink"]?.incarnation == 2
      }
      try await ward.waitUntilAllMet(try await ward.endNumbers())
      for (node, pid) in try await ward.pids() where node != "sink" { #expect(pid == pids[node]) }
    }
  }

  @Test("After an adoption, output is logged, and the orchestrator waits for a host without power")
  func powerAfterAdoption() async throws {
    let ward = Self.hall.replacing(
      "  clerk:", with: "  patient: { machine: Fragile, place: back, \(Self.restart) }\n  clerk:")
    try await SlurmCluster.with(ward, deployment: Self.places) { ward, cluster in
      try await ward.run("send", "patient", #"{"shout":{"lines":3}}"#)
      try await ward.killOrchestrator()
      #expect(try await ward.up().hasPrefix("ward: running, 7 nodes adopted"))
      // Output that a former srun can no longer deliver does not delay the node.
      for lines in [5_000, 4_000] {
        try await ward.run("send", "patient", #"{"shout":{"lines":\#(lines)}}"#)
        let isLogged: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
          try ward.log("patient").contains { $0.hasSuffix(" out line \(lines)") } ? true : nil
        }
        #expect(isLogged == true)
      }
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await cluster.cutPower(2)
      try await until("sink", is: "lost", ward)
      let isGivenUp: Bool? = try await poll(every: .milliseconds(200), within: .seconds(60)) {
        let log = try ward.logs()
        return [
          "sink: the srun process of the former",
          "sink: the sattach process that reads the output has ended",
        ]
        .contains { log.contains($0) } ? true : nil
      }
      #expect(isGivenUp == true)
      let lost = try await ward.directory()[node: "sink"]
      #expect(lost?.phase == "lost" && lost?.incarnation == 1)
      try await cluster.start(2)
      for node in ["sink", "right", "patient"] { try await until(node, is: "running", ward) }
      #expect(try await ward.directory()[node: "sink"]?.incarnation == 2)
      try await ward.waitUntilAllMet(try await ward.endNumbers())
    }
  }

  @Test(
    "A movable node continues if the next orchestrator starts before the node's lease expires")
  func leased() async throws {
    let yaml = """
      topology: ward
      program: TestNodes
      timeouts: { heartbeat: 2s }
      nodes:
        source: { machine: Source, place: front }
        sink:
          { machine: Sink, place: back, on_host_loss: move, durability: power, parameters: { work: 1000 },
            \(Self.restart) }
      pipes:
        - { from: source.out, to: sink.in, name: numbers }
      """
    let deployment = Self.spare.replacing("lease: 2s", with: "lease: 5s")
    try await withShared({ _ in yaml }, deployment: deployment) { ward, cluster in
      try await ward.startNumbers()
      for host in ["fh2", "fh3"] {
        try await ward.waitUntilNumbersArrive()
        let pids = try await ward.pids()
        try await ward.killOrchestrator()
        #expect(try await ward.up().hasPrefix("ward: running, 2 nodes adopted"))
        #expect(try await ward.pids() == pids)
        let sink = try await ward.directory()[node: "sink"]
        #expect(sink?.hostName == host && sink?.incarnation == (host == "fh2" ? 1 : 2))
        try await ward.waitUntilNumbersArrive()
        guard host == "fh2" else { continue }
        // Not long enough for Slurm to remove the host from the job.
        try await cluster.partition(2)
        let hasMoved: Bool? = try await poll(every: .milliseconds(200), within: .seconds(90)) {
          let sink = try await ward.directory()[node: "sink"]
          return sink?.isRunning == true && sink?.hostName == "fh3" ? true : nil
        }
        #expect(hasMoved == true)
        try await cluster.heal(2)
      }
      #expect(try await ward.directory()[node: "sink"]?.incarnation == 2)
    }
  }
}
