import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A topology on the hosts of a Slurm job", .timed, .needsSlurm, .serialized)
struct SlurmTests: OnSlurmHosts {
  private static let hosts = """
    engine: slurm
    address: 10.77.0.10
    places:
      front: { hosts: [fh1] }
      back: { hosts: [fh2] }
    """

  /// A source of numbers on one host, and a slow sink that counts them on another host.
  private static let numbers = """
    topology: ward
    program: TestNodes
    timeouts: { heartbeat: 2s }
    nodes:
      source: { machine: Source, place: front, restart: { max: 100, backoff: { initial: 20ms } } }
      sink:
        { machine: Sink, place: back, parameters: { work: 300 },
          restart: { max: 100, backoff: { initial: 20ms } } }
    pipes:
      - { from: source.out, to: sink.in, name: numbers }
    """

  private static let pair = """
    topology: ward
    program: TestNodes
    timeouts: { heartbeat: 2s }
    nodes:
      left: { machine: Party, place: front, restart: { max: 100, backoff: { initial: 20ms } } }
      right: { machine: Party, place: back, restart: { max: 100, backoff: { initial: 20ms } } }
    composites:
      pair: { components: [left, right], synchronize: [meet], within: left }
    """

  @Test("Nodes run on the hosts of their places, and are killed and restarted there")
  func kills() async throws {
    try await SlurmCluster.with(Self.numbers, deployment: Self.hosts) { ward, _ in
      let before = try await ward.directory()
      #expect(before[node: "source"]?.hostName == "fh1" && before[node: "sink"]?.hostName == "fh2")
      #expect(before[node: "source"]?.inbox.hasPrefix("tcp://10.77.0.11:") == true)
      try await ward.startNumbers()
      for victim in ["sink", "source"] {
        try await ward.waitUntilNumbersArrive()
        try await ward.run("kill", victim)
        try await ward.await("\(victim) is another process") {
          $0[node: victim]?.isRunning == true && $0[node: victim]?.incarnation == 2
        }
      }
      try await ward.waitUntilAllArrived(try await ward.endNumbers())
      #expect(try ward.logs().contains("killed by SIGKILL"))
      let table = try await ward.run("ps")
      #expect(table.output.contains("front (fh1)"), "\(table)")
    }
  }

  @Test("A suspended node on a host that answers is killed and restarted")
  func hang() async throws {
    try await SlurmCluster.with(Self.numbers, deployment: Self.hosts) { ward, _ in
      try await ward.run("kill", "-s", "STOP", "sink")
      try await ward.await("sink is another process") {
        $0[node: "sink"]?.isRunning == true && $0[node: "sink"]?.incarnation == 2
      }
      #expect(try ward.logs().contains("but its host answers"))
    }
  }

  @Test("While a host is cut off, its processes continue and the orchestrator waits")
  func partition() async throws {
    try await SlurmCluster.with(Self.numbers, deployment: Self.hosts) { ward, cluster in
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await cluster.partition(2)
      try await until("sink", is: "lost", ward)
      try await cluster.heal(2)
      try await until("sink", is: "running", ward)
      try await ward.waitUntilAllArrived(try await ward.endNumbers())
      #expect(try await ward.directory()[node: "sink"]?.incarnation == 1)
    }
  }

  @Test("Nodes on a host that lost power restart from their journals when the host is back")
  func power() async throws {
    try await SlurmCluster.with(Self.numbers, deployment: Self.hosts) { ward, cluster in
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await cluster.cutPower(2)
      try await until("sink", is: "lost", ward)
      // No successor is started until Slurm gives up the host.
      let isGivenUp: Bool? = try await poll(every: .milliseconds(200), within: .seconds(60)) {
        try ward.logs().contains("Node failure on fh2") ? true : nil
      }
      #expect(isGivenUp == true)
      let lost = try await ward.directory()[node: "sink"]
      #expect(lost?.phase == "lost" && lost?.incarnation == 1)
      try await cluster.start(2)
      try await until("sink", is: "running", ward)
      #expect(try await ward.directory()[node: "sink"]?.incarnation == 2)
      try await ward.waitUntilAllArrived(try await ward.endNumbers())
    }
  }

  @Test("Nodes continue without a restart when Slurm's daemon on their host is killed")
  func daemon() async throws {
    try await SlurmCluster.with(Self.numbers, deployment: Self.hosts) { ward, cluster in
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await cluster.killDaemon(of: 2)
      let isGivenUp: Bool? = try await poll(every: .milliseconds(200), within: .seconds(60)) {
        try ward.logs().contains("Node failure on fh2") ? true : nil
      }
      #expect(isGivenUp == true)
      try await ward.waitUntilNumbersArrive()
      let sink = try await ward.directory()[node: "sink"]
      #expect(sink?.phase == "running" && sink?.incarnation == 1)
    }
  }

  @Test(
    "Nodes continue while Slurm's controller is down; a killed node restarts after its return"
  )
  func controller() async throws {
    try await SlurmCluster.with(Self.numbers, deployment: Self.hosts) { ward, cluster in
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await cluster.killDaemon(of: 0)
      try await ward.waitUntilNumbersArrive()
      let victim = try #require(processes(of: "sink", ward).first.flatMap { Int32($0) })
      #expect(kill(victim, SIGKILL) == 0)
      try await ward.await("the end of the sink is seen") {
        $0[node: "sink"]?.incarnation == 2
      }
      let source = try await ward.directory()[node: "source"]
      #expect(source?.phase == "running" && source?.incarnation == 1)
      try await cluster.restartDaemon(of: 0)
      try await until("sink", is: "running", ward)
      try await ward.waitUntilAllArrived(try await ward.endNumbers())
      #expect(try await ward.directory()[node: "source"]?.incarnation == 1)
    }
  }

  @Test("Processes left on a host by a killed orchestrator are ended before their node restarts")
  func orphans() async throws {
    try await SlurmCluster.with(Self.numbers, deployment: Self.hosts) { ward, _ in
      try await ward.startNumbers()
      try await ward.waitUntilNumbersArrive()
      try await ward.killOrchestrator()
      // Slurm does not end a process whose srun was killed.
      for survivor in try Survivor.all(in: ward.directories) {
        survivor.process.signal(.kill, group: true)
      }
      #expect(processes(of: "sink", ward).count == 1)
      try await ward.up()
      try await ward.waitUntilAllArrived(try await ward.endNumbers())
      for node in ["source", "sink"] { #expect(processes(of: node, ward).count == 1) }
      #expect(try await ward.directory()[node: "sink"]?.incarnation == 2)
    }
  }

  @Test(
    "A submitted job runs its topology on the first host, and stops the topology gracefully"
  )
  func batch() async throws {
    try await SlurmCluster.with { tool, cluster in
      let first = try #require(tool.environment["SLURM_JOB_ID"])
      #expect(try await cluster.run("scancel", first, by: tool).code == 0)
      var tool = tool
      tool.environment["SLURM_JOB_ID"] = nil
      try tool.directory.write(Self.numbers, to: "ward.yaml")
      let hosts = Self.hosts.replacing("address: 10.77.0.10\n", with: "")
      try tool.directory.write(hosts, to: "hosts.yaml")
      let submitted = try await tool.run(
        "submit", "ward.yaml", "--deployment", "hosts.yaml", code: 0)
      let job = try #require(submitted.output.split(whereSeparator: \.isWhitespace).last)
      #expect(submitted.output == "ward: job \(job)\n")
      let runs: Bool? = try await poll(
        every: .milliseconds(100), within: .seconds(60), of: tool.directory
      ) {
        let table = try await tool.run("ps", "-p", "ward")
        return table.output.contains("back (fh2)   running") ? true : nil
      }
      #expect(runs == true)
      #expect(try await cluster.run("scancel", "-b", "-s", "TERM", String(job), by: tool).code == 0)
      let output = tool.directory.path + "/slurm-\(job).out"
      let isStopped: Bool? = try await poll(
        every: .milliseconds(100), within: .seconds(60), of: tool.directory
      ) {
        let text = FileSystem.contents(of: output).map { String(decoding: $0, as: UTF8.self) }
        return text?.contains("ward: stopped") == true ? true : nil
      }
      #expect(isStopped == true)
    }
  }

  @Test("A host outside the job, and a missing job, cause errors that say what to do")
  func refusals() async throws {
    try await SlurmCluster.with { tool, _ in
      try tool.directory.write(Self.numbers, to: "ward.yaml")
      try tool.directory.write(
        Self.hosts.replacing("hosts: [fh2]", with: "hosts: [fh7]"), to: "hosts.yaml")
      let arguments = ["run", "ward.yaml", "--deployment", "hosts.yaml"]
      let unknown = try await tool.end(of: tool.start(arguments), code: 2)
      #expect(
        unknown.error.contains("hosts.yaml:5:18: error: place 'back': host 'fh7' ")
      )
      var outside = tool
      outside.environment["SLURM_JOB_ID"] = nil
      let none = try await outside.end(of: outside.start(arguments), code: 1)
      #expect(none.error.contains("submit a job with 'orchestrator submit'"), "\(none)")
    }
  }

  @Test(
    "A synchronized event commits across hosts, before and after its coordinator's host is lost")
  func composite() async throws {
    try await SlurmCluster.with(Self.pair, deployment: Self.hosts) { ward, cluster in
      for met in 1...2 {
        let hasCommitted: Bool? = try await poll(
          every: .milliseconds(100), within: .seconds(60), of: ward.tool.directory
        ) {
          let sent = try ward.tool.start(
            CommandLineTool.withLongTimeout(["send", "pair", #""meet""#]))
          return try await ward.tool.result(of: sent, within: .seconds(60)).code == 0 ? true : nil
        }
        #expect(hasCommitted == true)
        let state = try JSONValue(encoding: Party.State.willing(met: met, steps: 0))
        try await ward.await("both have met \(met) times") {
          $0[node: "left"]?.status?.state == state && $0[node: "right"]?.status?.state == state
        }
        guard met == 1 else { continue }
        try await cluster.cutPower(1)
        try await until("left", is: "lost", ward)
        try await cluster.start(1)
        try await until("left", is: "running", ward)
        try await until("pair", is: "running", ward)
      }
    }
  }
}
