import Glibc
import PipeClient
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Steps of instances", .timed)
struct InstanceStepTests {
  /// Sends visits for two keys until a command has ended. Returns the output of the command.
  private static func visit(
    _ topology: TopologyHarness, until arguments: [String]
  ) async throws -> String {
    let tool = CommandLineTool(beside: topology)
    let program = try tool.start(arguments)
    return try await withThrowingTaskGroup(of: String?.self) { group in
      group.addTask {
        var n = 0
        while !Task.isCancelled {
          n += 1
          try await topology.send("visitors", Visitor.Event.visit(key: "a", n: n))
          try await topology.send("visitors", Visitor.Event.visit(key: "b", n: n))
        }
        return nil
      }
      group.addTask {
        let result = try await tool.result(of: program, within: .seconds(60))
        #expect(result.code == 0, "\(result)")
        return result.output
      }
      while let output = try await group.next() {
        guard let output else { continue }
        group.cancelAll()
        return output
      }
      throw UnexpectedResult("the command has no result")
    }
  }

  @Test("'monitor --steps NODE[KEY]' shows each step of this instance, and of no other")
  func oneInstance() async throws {
    try await withTopology(Visits.topology()) { topology in
      let output = try await Self.visit(
        topology, until: ["monitor", "visitors[b]", "--steps", "-n", "5", "-o", "jsonl"])
      let steps = try output.split(separator: "\n").map { try JSONValue(parsing: $0.utf8) }
      #expect(steps.count == 5)
      let versions = steps.compactMap { $0["version"]?.integer }
      #expect(versions.count == 5)
      #expect(versions == (0..<5).map { (versions.first ?? 0) + Int64($0) }, "\(output)")
      for step in steps {
        #expect(step["instance"] == "visitors[b]")
        #expect(step["node"] == "visitors")
        #expect(step["event"]?["visit"]?["key"] == "b")
        #expect(step["state"]?["visited"]?["times"] == step["version"])
        #expect(step["request"]?["number"] != nil)
        #expect(step["lost"] == 0)
      }
    }
  }

  @Test("'monitor --steps NODE' shows the steps of all instances with their names")
  func allInstances() async throws {
    try await withTopology(Visits.topology()) { topology in
      let output = try await Self.visit(
        topology, until: ["monitor", "visitors", "--steps", "-n", "6"])
      #expect(output.contains(" visitors[a] ") && output.contains(" visitors[b] "), "\(output)")
    }
  }

  @Test("A node without a journal reports the steps of its instances, too")
  func volatile() async throws {
    try await withTopology(Visits.topology(durability: .volatile)) { topology in
      let output = try await Self.visit(
        topology, until: ["monitor", "visitors[a]", "--steps", "-n", "3"])
      #expect(output.contains(" visitors[a] ") && !output.contains("visitors[b]"), "\(output)")
    }
  }

  @Test("'trace' shows which instances have taken a synchronized event together")
  func trace() async throws {
    try await withTopology(Guests.pair()) { topology in
      let tool = CommandLineTool(beside: topology)
      let program = try tool.start(["trace", "--for", "2s"])
      let result = try await withThrowingTaskGroup(of: CommandLineTool.Result?.self) { group in
        group.addTask {
          while !Task.isCancelled {
            _ = try await topology.client.synchronize("pair", Guest.Event.meet(key: "a"))
          }
          return nil
        }
        group.addTask { try await tool.result(of: program, within: .seconds(60)) }
        while let result = try await group.next() {
          guard let result else { continue }
          group.cancelAll()
          return result
        }
        throw UnexpectedResult("the command has no result")
      }
      #expect(result.code == 0, "\(result)")
      #expect(result.output.contains("synchronized by pair"), "\(result)")
      #expect(
        result.output.contains("  left[a] ") && result.output.contains("  right[a] "), "\(result)")
    }
  }

  @Test("'ps' shows the instance that is in doubt longest, and the number of others in doubt")
  func doubts() async throws {
    var guests = Guests.pair()
    for index in guests.nodes.indices {
      guests.nodes[index].restart.backoff = Backoff(
        initial: .seconds(600), max: .seconds(600), jitter: 0)
    }
    try await withTopology(guests) { topology in
      // The left instances vote, the right ones do not, and then the coordinator is killed.
      let right = try #require(try await topology.status("right").pid)
      let prepared: Bool? = try await poll(within: .seconds(120)) {
        try await topology.start("pair")
        kill(right, SIGSTOP)
        defer { kill(right, SIGCONT) }
        let caller = try TopologyClient(
          topology: topology.topology, control: topology.control,
          answerTimeout: TopologyHarness.clientTimeout)
        for key in ["a", "b", "c"] {
          Task { _ = try? await caller.synchronize("pair", Guest.Event.meet(key: key)) }
        }
        let isPrepared: Bool? = try? await poll(within: .seconds(1)) {
          try await topology.status("left").doubts.first?.otherInstances == 2 ? true : nil
        }
        caller.close()
        try await topology.kill("pair")
        let status = try await topology.status("left")
        return isPrepared == true && status.doubts.first?.otherInstances == 2 ? true : nil
      }
      #expect(prepared == true)
      let tool = CommandLineTool(beside: topology)
      let shown = try await tool.run("ps", "left", code: 0)
      #expect(shown.output.contains(", and 2 more instances)"), "\(shown)")
      #expect(shown.output.contains("(left["), "\(shown)")
      let record = try await tool.run("ps", "left", "-o", "json", code: 0)
      #expect(record.output.contains(#""otherInstances":2"#), "\(record)")
      try await topology.start("pair")
      try await topology.expectStatus(of: "left", "no instance in doubt") { $0.doubts.isEmpty }
    }
  }
}
