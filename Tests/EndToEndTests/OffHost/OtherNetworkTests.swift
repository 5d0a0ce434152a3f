import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Clients on another network", .timed, .needsNetworkNamespace)
struct OtherNetworkTests {
  @Test("Every verb works from another network")
  func verbs() async throws {
    try await NetworkPair.with(RemoteVerbs.visitors) { ward, host, _ in
      #expect(try host.control.endpoint.hasPrefix("tcp://\(NetworkPair.address):"))
      try await RemoteVerbs(ward: ward, host: host).run()
    }
  }

  @Test("A client without an admitted key learns nothing and changes nothing")
  func strangers() async throws {
    try await NetworkPair.with(RemoteVerbs.visitors) { ward, host, _ in
      let (endpoint, key) = try host.control
      let path = host.tool.directory.path + "/stranger.key"
      try KeyFile.write(
        try CurveKeyPair.make(),
        for: ControlAddress(topology: "ward", endpoint: endpoint, key: key), to: path)
      for verb in [
        ["ps"], ["monitor", "--plain", "-n", "1"], ["logs"], ["send", "button", "press"], ["down"],
      ] {
        // On a busy machine the timeout may pass before the client is rejected. It then reports
        // that it got no answer.
        var error = ""
        for _ in 0..<10 where !error.contains("did not admit this client") {
          let program = try host.tool.start(verb + ["--key", path])
          let result = try await host.tool.end(of: program, within: .seconds(60), code: 3)
          #expect(result.output.isEmpty)
          error = result.error
        }
        #expect(error.contains("did not admit this client"))
      }
      #expect(try await ward.directory()[node: "button"]?.status?.version == 0)
      #expect(
        try ward.log("orchestrator").contains { $0.contains("rejected a peer") }
      )
    }
  }

  private static func counted(_ count: Int) throws -> JSONValue {
    try JSONValue(encoding: Sink.State.counting(last: count, count: count, wrong: 0))
  }

  @Test("A suspended monitor does not affect the nodes, and continues when it is resumed")
  func stalled() async throws {
    try await NetworkPair.with(DeployedTopologyTests.numbers) { ward, host, _ in
      let monitors = [
        try host.start("monitor", "--every", "-o", "jsonl"),
        try host.start("monitor", "--steps", "-o", "jsonl"),
      ]
      try await host.await("sink", of: monitors[0])
      try await host.run("send", "source", #"{"go":{"count":100}}"#)
      try await host.await("sink", of: monitors[1])
      let some = try Self.counted(100)
      try await ward.await("some have arrived") { $0[node: "sink"]?.status?.state == some }
      for monitor in monitors { #expect(monitor.signal(.stop)) }
      let before = try await ward.pids()
      let count = 20_000
      try await host.run("send", "source", #"{"go":{"count":\#(count)}}"#)
      let all = try Self.counted(100 + count)
      try await ward.await("all have arrived") { $0[node: "sink"]?.status?.state == all }
      #expect(monitors.allSatisfy { $0.exit == nil })
      // No node was restarted, and no node buffers messages that the monitor does not read.
      let directory = try await ward.directory()
      #expect(try await ward.pids() == before)
      for node in directory.nodes {
        let usage = try #require(node.pid.flatMap { ProcessUsage(pid: $0) })
        #expect(usage.memoryByteCount < 200 << 20, "\(node.name)")
      }
      for monitor in monitors { #expect(monitor.signal(.resume)) }
      try await host.run("send", "source", #"{"go":{"count":1}}"#)
      try await host.await("\(101 + count)", of: monitors[0])
      #expect(monitors.allSatisfy { $0.exit == nil })
      for monitor in monitors { monitor.signal(.kill) }
    }
  }

  @Test("A broken connection is opened again, and pending requests are repeated")
  func broken() async throws {
    try await NetworkPair.with(RemoteVerbs.visitors) { ward, host, network in
      let monitor = try host.start("monitor", "--plain", "button")
      try await host.await("pressed(times: 0)", of: monitor)
      let logs = try host.start("logs", "-f", "gate")
      try await host.await("gate", of: logs)
      try await network.connect(false)
      try await ward.run("send", "button", "press")
      // The command waits longer than both ends require to detect the cut, and less long than the
      // other clients wait.
      let ps = try host.start("ps")
      #expect(
        try await host.tool.end(of: ps, within: .seconds(60), code: 3).error
          .contains("no orchestrator answered"))
      try await network.connect(true)
      try await host.await("pressed(times: 1)", of: monitor)
      try await host.run("send", "button", "press")
      try await host.await("pressed(times: 2)", of: monitor)
      #expect(logs.exit == nil)
      try await network.connect(false)
      // The topology may still be running, as far as the client knows.
      for program in [monitor, logs] {
        let result = try await host.tool.end(of: program, within: .seconds(90), code: 1)
        #expect(
          result.error.contains(
            "was lost and could not be restored: the topology may still be running"))
      }
      try await network.connect(true)
    }
  }
}
