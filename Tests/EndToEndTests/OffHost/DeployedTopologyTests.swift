import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A deployed topology", .timed)
struct DeployedTopologyTests {
  static let lab = """
    address: 127.0.0.3
    places:
      front: { address: 127.0.0.1 }
      back: { address: 127.0.0.2 }
    """

  /// A source of numbers at one place, and a slow sink that counts them at another one.
  static let numbers = """
    topology: ward
    program: TestNodes
    nodes:
      source: { machine: Source, place: front, restart: { max: 100, backoff: { initial: 20ms } } }
      sink:
        { machine: Sink, place: back, parameters: { work: 300 },
          restart: { max: 100, backoff: { initial: 20ms } } }
    pipes:
      - { from: source.out, to: sink.in, name: numbers }
    """

  private func counted(_ count: Int) throws -> JSONValue {
    try JSONValue(encoding: Sink.State.counting(last: count, count: count, wrong: 0))
  }

  @Test(
    "Events arrive once and in order while receiver and sender are killed and change endpoints"
  )
  func kills() async throws {
    try await DetachedTopology.with(Self.numbers, deployment: Self.lab) { ward in
      let client = try ward.client()
      defer { client.close() }
      let states = try await client.states(of: ["sink"])
      let before = try await client.directory()
      #expect(before[node: "source"]?.inbox.hasPrefix("tcp://127.0.0.1:") == true)
      #expect(before[node: "sink"]?.feed.hasPrefix("tcp://127.0.0.2:") == true)

      try await ward.startNumbers()
      for victim in ["sink", "source"] {
        try await ward.waitUntilNumbersArrive()
        try await ward.run("kill", victim)
        let after = try await ward.await("\(victim) is another process") {
          $0[node: victim]?.isRunning == true && $0[node: victim]?.incarnation == 2
        }
        #expect(after[node: victim]?.inbox != before[node: victim]?.inbox)
        #expect(after[node: victim]?.key != before[node: victim]?.key)
      }
      let count = try await ward.endNumbers()
      try await ward.waitUntilAllArrived(count)
      // A client from before the restarts reaches both nodes, and reads the feed at its new
      // endpoint.
      let last = try counted(count + 10)
      let seen = try await unlessStalled(for: .seconds(20)) {
        try await client.send("source", Source.Event.go(count: 10))
        for await change in states where change.state == last { return change.incarnation }
        return 0
      }
      #expect(seen == 2)
    }
  }

  @Test("Every verb works on a deployed topology, and 'ps' shows each node's place")
  func verbs() async throws {
    try await DetachedTopology.with(Self.numbers, deployment: Self.lab) { ward in
      let sent = try await ward.run("send", "source", #"{"go":{"count":5}}"#)
      #expect(sent.output.hasPrefix(#"source: {"sending""#), "\(sent)")
      let last = try counted(5)
      try await ward.await("all have arrived") { $0[node: "sink"]?.status?.state == last }
      let table = try await ward.run("ps")
      let rows = table.output.split(separator: "\n").map {
        $0.split(separator: " ").prefix(3).joined(separator: " ")
      }
      #expect(rows == ["NODE PLACE STATUS", "source front running", "sink back running"])

      let monitor = try ward.tool.start(["monitor", "--plain", "--every", "sink"])
      defer { monitor.signal(.kill) }
      let isReported: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
        monitor.outputText.contains("counting(count: 5, last: 5, wrong: 0)") ? true : nil
      }
      #expect(isReported == true, "\(monitor.outputText)\(monitor.errorText)")
      try await ward.run("stop", "sink")
      try await ward.run("start", "sink")
      try await ward.run("send", "source", #"{"go":{"count":2}}"#)
      let isFollowed: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
        monitor.outputText.contains("counting(count: 7, last: 7, wrong: 0)") ? true : nil
      }
      #expect(isFollowed == true, "\(monitor.outputText)\(monitor.errorText)")
      #expect(try await ward.run("logs", "sink").output.contains("connected"))

      let apply = try await ward.run("apply", "ward.yaml")
      #expect(apply.output == DetachedTopology.unchanged, "\(apply)")
      let down = try await ward.run("down")
      #expect(down.output == "ward: down\n", "\(down)")
      #expect(ward.tool.directory.processes.isEmpty)
      #expect(!FileSystem.exists(try ward.directories.clientKeyFile))
    }
  }

  @Test(
    "Synchronized events commit between places of a deployment, even after each process was killed")
  func composite() async throws {
    let pair = """
      topology: ward
      program: TestNodes
      nodes:
        left: { machine: Party, place: front, restart: { max: 100, backoff: { initial: 20ms } } }
        right: { machine: Party, place: back, restart: { max: 100, backoff: { initial: 20ms } } }
      composites:
        pair: { components: [left, right], synchronize: [meet] }
      """
    try await DetachedTopology.with(pair, deployment: Self.lab) { ward in
      let client = try ward.client()
      defer { client.close() }
      var met = 0
      for victim in ["left", "pair", "right", nil] {
        let reply: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
          // A participant that is restarting does not take part.
          let reply = try await client.synchronize("pair", Party.Event.meet)
          if case .committed = reply { return true }
          return nil
        }
        #expect(reply == true)
        met += 1
        let state = try JSONValue(encoding: Party.State.willing(met: met, steps: 0))
        try await ward.await("both have met \(met) times") {
          $0[node: "left"]?.status?.state == state && $0[node: "right"]?.status?.state == state
        }
        guard let victim else { continue }
        try await ward.run("kill", victim)
        try await ward.await("\(victim) is another process") {
          $0[node: victim]?.isRunning == true && $0[node: victim]?.incarnation == 2
        }
      }
    }
  }

  @Test("A monitor of a deployed topology follows a restarted node to its new process")
  func monitor() async throws {
    let watched = Self.numbers + "\nmonitors:\n  census: { monitor: Census }\n"
    try await DetachedTopology.with(watched, deployment: Self.lab) { ward in
      let client = try ward.client()
      defer { client.close() }
      try await ward.run("kill", "sink")
      try await client.send("source", Source.Event.go(count: 3))
      let line = "sink 2.3 \(try counted(3).text)"
      let isTold: Bool? = try await poll(within: .seconds(20), of: ward.tool.directory) {
        try ward.log("census").contains { $0.hasSuffix(line) } ? true : nil
      }
      let log = try ward.log("census")
      #expect(isTold == true, "\(log)")
    }
  }
}
