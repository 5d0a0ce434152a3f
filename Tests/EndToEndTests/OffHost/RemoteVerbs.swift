import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import Testing

/// Runs each verb once, on a topology on another host.
struct RemoteVerbs {
  static let visitors = """
    topology: ward
    program: TestNodes
    nodes:
      button: { machine: Button, place: front }
      gate: { machine: Gate, place: back }
      left: { machine: Party, place: front, durability: none }
      right: { machine: Party, place: back, durability: none }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    pipes:
      - { from: button, when: pressed, to: gate, send: pass, name: visitors }
    """

  let ward: DetachedTopology
  let host: OtherHost

  func run() async throws {
    try await checkReadingVerbs()
    try await send()
    try await checkFollowingVerbs()
    try await checkLifecycleVerbs()
    try await checkRefusals()
    try await end()
  }

  private func checkReadingVerbs() async throws {
    #expect(try await host.tool.run("ps", code: 3).reports(TopologyClientError.noneRunning))
    let ps = try await host.run("ps")
    for name in ["button", "gate", "left", "right", "pair"] { #expect(ps.output.contains(name)) }
    let rows = try await host.run("ps", "-o", "jsonl", "gate").output
    #expect(rows.contains(#""cpuSeconds":null"#), "\(rows)")
    #expect(try await host.run("status").output.contains("ward: running"))
    #expect(try await host.run("describe", "gate").output.contains("Gate"))
    #expect(try await host.run("pipe", "ls", "-q").output == "visitors\n")
    #expect(try await host.run("pipe", "info", "visitors").output.contains("button"))
    #expect(try await host.run("pipe", "hz", "-n", "1", "--every", "50ms").code == 0)
    #expect(try await host.run("why", "gate", "open").output.contains("enabled"))
    let graph = ward.tool.directory.path + "/ward.yaml"
    #expect(try await host.run("graph", graph, "--live", "-o", "dot").output.contains("gate"))
  }

  private func send() async throws {
    #expect(
      try await host.run("send", "button", "press").output.contains(#"{"pressed":{"times":1}}"#))
    #expect(
      try await host.run("pipe", "send", "visitors", "pass", code: 1).error.contains("refused"))
    #expect(try await host.run("send", "pair", "meet").code == 0)
    #expect(
      try await host.run("wait", "button={\"pressed\":{\"times\":1}}", "--timeout", "30s").output
        .contains("button"))
    // The gate is shut: the entries into the button's first state and this state became dead
    // letters.
    try await ward.await("two letters") { $0[node: "gate"]?.status?.deadLetters == 2 }
    let deadLetters = try await host.run("dead-letters", "gate", "-o", "jsonl").output
    #expect(deadLetters.split(separator: "\n").count == 2, "\(deadLetters)")
    let local = try await ward.run("dead-letters", "gate", "-o", "jsonl").output
    #expect(deadLetters == local)
    // The gate may write its journal between the two reads, because it deletes events that its
    // peers have acknowledged.
    var (journal, localJournal) = ("", " ")
    for _ in 0..<20 where localJournal != journal {
      journal = try await host.run("journal", "gate", "-n", "2", "-o", "json").output
      localJournal = try await ward.run("journal", "gate", "-n", "2", "-o", "json").output
    }
    #expect(localJournal == journal)
    #expect(journal.contains(#""deadLetters":2"#), "\(journal)")
    #expect(try await host.run("dead-letters", "gate", "show", "1").output.contains("visitors"))
    try await host.run("dead-letters", "gate", "drop", "1")
    try await host.run("send", "gate", "open")
    try await host.run("dead-letters", "gate", "resend", "2")
    #expect(try await host.run("dead-letters", "gate").output == "")
  }

  private func checkFollowingVerbs() async throws {
    let states = try await host.run("monitor", "gate", "-n", "1", "-o", "jsonl").output
    #expect(states.contains(#""state":{"open":{"passed":1}}"#), "\(states)")
    // These programs report what happens after their start.
    let steps = try host.start("monitor", "button", "--steps", "-n", "1", "-o", "jsonl")
    let tap = try host.start("monitor", "--tap", "visitors", "-n", "1", "-o", "jsonl")
    let trace = try host.start("trace", "--for", "2s")
    // Waits until each program has started and has reported an event.
    while [steps, tap, trace].contains(where: { $0.exit == nil }) {
      try await host.run("send", "button", "press")
      try await Task.sleep(for: .milliseconds(50))
    }
    #expect(try await host.tool.end(of: steps).output.contains("press"))
    #expect(try await host.tool.end(of: tap).output.contains("pass"))
    #expect(try await host.tool.end(of: trace).output.contains("button"))
    let localLogs = try await ward.run("logs", "--no-prefix").output
    let remoteLogs = try await host.run("logs", "--no-prefix").output
    // New lines may have been written in between.
    #expect(!localLogs.isEmpty && remoteLogs.hasPrefix(localLogs), "\(localLogs)\n\(remoteLogs)")
    #expect(
      try await host.run("logs", "-n", "1", "-o", "jsonl", "gate").output
        .split(separator: "\n").count == 1)
    #expect(
      try await host.run("logs", "nobody", code: 1).error.contains("node 'nobody'"))
  }

  private func checkLifecycleVerbs() async throws {
    try await host.run("kill", "left")
    try await ward.await("it is back") {
      $0[node: "left"].map { $0.isRunning && $0.restarts == 1 } == true
    }
    try await host.run("stop", "left")
    #expect(try await host.run("status", code: 1).output.contains("stopped"))
    try await host.run("start", "left")
    #expect(try await host.run("restart", "right").output.contains("right: running"))
    #expect(try await host.run("down", "button").output.contains("button: stopped"))
    try await host.run("start", "button")
    let same = try await host.run("apply", ward.tool.directory.path + "/ward.yaml")
    #expect(same.output.contains(DetachedTopology.unchanged), "\(same)")
  }

  private func checkRefusals() async throws {
    let endpoint = try host.control.endpoint
    #expect(try await host.run("reset", "gate", code: 2).error.contains(" at \(endpoint); "))
    #expect(try await host.run("journal", "nobody", code: 1).error.contains("node 'nobody'"))
    #expect(try await host.run("graph", code: 2).error.contains(" at \(endpoint); "))
    #expect(
      try await host.run("describe", "--graph", "gate", code: 2).error.contains(" at \(endpoint); ")
    )
  }

  private func end() async throws {
    let monitor = try host.start("monitor", "--plain")
    let logs = try host.start("logs", "-f")
    let screen = try host.start("wait", "gate=shut")
    try await host.await("gate", of: monitor)
    try await host.await("gate", of: logs)
    #expect(try await host.run("down").output == "ward: down\n")
    // The orchestrator notifies these programs of its end. Otherwise they would report a lost
    // connection.
    try await host.tool.end(of: monitor, within: .seconds(60))
    try await host.tool.end(of: logs, within: .seconds(60))
    try await host.tool.end(of: screen, within: .seconds(60), code: 1)
    // A remote client sees the orchestrator's last message, and not the end of its process.
    let directories = try ward.directories
    let hasEnded: Bool? = try await poll(within: .seconds(20)) {
      RunningTopology.find(directories) == nil ? true : nil
    }
    #expect(hasEnded == true)
  }
}
