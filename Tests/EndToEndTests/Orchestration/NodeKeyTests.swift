import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestTraits
import Testing

@Suite("Keys of a topology file that affect the processes of nodes and monitors", .timed)
struct NodeKeyTests {
  @Test("A node runs in its working directory, and a missing directory causes an error in the file")
  func workingDirectory() async throws {
    try await CommandLineTool.launching { tool in
      let yaml =
        "topology: ward\nprogram: TestNodes\nnodes:\n  button: { machine: Button, working_directory: work }\n"
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: yaml)
      let refused = try await tool.run("check", "ward.yaml", code: 2)
      #expect(
        refused.error.contains(
          "ward.yaml:4:49: error: node 'button': 'working_directory': no such directory 'work'"),
        "\(refused)")
      try FileSystem.makeDirectories(tool.directory.path + "/work", mode: 0o700)
      try await ward.up()
      let pid = try #require(try await ward.pids()["button"])
      var name = [UInt8](repeating: 0, count: 4096)
      let count = readlink("/proc/\(pid)/cwd", &name, name.count)
      #expect(String(decoding: name.prefix(max(count, 0)), as: UTF8.self).hasSuffix("/work"))
      try ward.write(yaml.replacing("work }", with: "., stop: { signal: SIGINT, timeout: 9s } }"))
      let apply = try await ward.apply()
      #expect(
        apply.output.contains("~ button  \(TopologyChange.Fate.restarts(.launch(.directory)))"),
        "\(apply)")
      try await ward.run("down")
    }
  }

  @Test("A node that is still starting is stopped with its configured signal and timeout")
  func stop() async throws {
    try await CommandLineTool.launching { tool in
      let yaml = """
        topology: ward
        nodes:
          slow: { machine: Button, program: ./slow, stop: { signal: SIGINT, timeout: 1m } }
        timeouts: { start: 5m, stop: 1ms }
        """
      try tool.directory.write(
        """
        #!/bin/sh
        [ "$1" = describe ] && exec "\(CommandLineTool.products)/TestNodes" "$@"
        trap 'echo interrupted; exit 0' INT
        echo waiting
        while :; do sleep 0.1; done

        """, to: "slow", mode: 0o700)
      let ward = try DetachedTopology(tool: tool, name: "ward", yaml: yaml)
      try await ward.run("up", "-d", "ward.yaml")
      let isThere: Bool? = try await poll(within: .seconds(60)) {
        try ward.log("slow").contains { $0.hasSuffix("waiting") } ? true : nil
      }
      #expect(isThere == true)
      try await ward.run("down")
      #expect(try ward.log("slow").contains { $0.hasSuffix("interrupted") })
    }
  }

  @Test("A monitor gets parameters and environment from the file")
  func monitor() async throws {
    let yaml = """
      topology: ward
      program: TestNodes
      nodes:
        button: { machine: Button }
      monitors:
        alarm: { monitor: Alarm, parameters: { limit: 2 }, environment: { ALARM: loud } }
        plain: { monitor: Alarm }
      """
    try await withTopology(yaml: yaml) { topology in
      try await topology.expectLog("alarm", contains: "alarm at 2, loud")
      try await topology.expectLog("plain", contains: "alarm at 9, quiet")
    }
  }

  @Test("A monitor with unknown parameters fails, and its log names them")
  func wrongParameters() async throws {
    let yaml = """
      topology: ward
      program: TestNodes
      nodes:
        button: { machine: Button }
      monitors:
        census: { monitor: Census, parameters: { limit: 2 } }
        alarm: { monitor: Alarm, parameters: { limits: 2 } }
      """
    try await withTopology(yaml: yaml) { topology in
      try await topology.expectLog("census", contains: "monitor 'Census' takes no parameters")
      try await topology.expectLog("alarm", contains: "'limits'")
      // Waits for the failures: a monitor that is about to fail would not stop in order.
      for monitor in ["census", "alarm"] {
        try await topology.expectStatus(of: monitor, "failed", within: .seconds(60)) {
          $0.phase == "failed"
        }
      }
    }
  }
}
