import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The commands for instances", .timed)
struct InstanceCommandTests {
  @Test("'send' puts the key of NODE[KEY] into the event's field")
  func send() async throws {
    try await withTopology(Visits.topology()) { topology in
      let tool = CommandLineTool(beside: topology)
      let sent = try await tool.run("send", "visitors[a b]", #"{"visit":{"n":1}}"#, code: 0)
      #expect(
        sent.output.hasPrefix(#"visitors[a b]: {"visited":{"#)
          && sent.output.hasSuffix("(version 1)\n"), "\(sent)")
      // A label alone is sufficient if the key is the only field.
      let rest = try await tool.run("send", "visitors[a b]", "rest", code: 0)
      #expect(rest.output.contains("resting"), "\(rest)")
      let bad = try await tool.run("send", "caller[a]", "next", code: 2)
      #expect(bad.error.contains("no such node 'caller[a]'"), "\(bad)")
      let empty = try await tool.run("send", "visitors[]", "rest", code: 2)
      #expect(empty.error.contains("instances are NODE[KEY]"), "\(empty)")
    }
  }

  @Test("'wait' returns for the state of one instance, which may not exist yet")
  func wait() async throws {
    try await withTopology(Visits.topology()) { topology in
      let tool = CommandLineTool(beside: topology)
      let waiting = try tool.start(["wait", "visitors[late]=visited", "--timeout", "60s"])
      try await topology.send("visitors", Visitor.Event.visit(key: "other", n: 1))
      try await topology.send("visitors", Visitor.Event.visit(key: "late", n: 1))
      let found = try await tool.result(of: waiting)
      #expect(found.code == 0, "\(found)")
      #expect(found.output.hasPrefix("visitors[late]: visited("), "\(found)")
      // The state that the instance is in already.
      try await tool.run("wait", "visitors[other]=visited", "--timeout", "60s", code: 0)
      let timedOut = try await tool.run(
        "wait", "visitors[none]=visited", "--timeout", "200ms", code: 124)
      #expect(
        timedOut.error.contains("'visitors[none]' has not reported a state yet"), "\(timedOut)")
      let typo = try await tool.run("wait", "visitors[a]=visitd", code: 2)
      #expect(typo.error.contains("Did you mean 'visited'?"), "\(typo)")
    }
  }

  @Test("A follower of one instance gets each of its states once, across kills of the node")
  func followed() async throws {
    try await withTopology(Visits.topology()) { topology in
      try await topology.send("visitors", Visitor.Event.visit(key: "a", n: 1))
      let stream = try await topology.client.states(of: ["visitors[a]"])
      let versions = Task {
        var versions: [UInt64] = []
        for await change in stream {
          #expect(change.node == "visitors[a]")
          versions.append(change.version)
          if change.version == 30 { break }
        }
        return versions
      }
      for n in 2...30 {
        if n.isMultiple(of: 10) { try await topology.kill("visitors") }
        try await topology.send("visitors", Visitor.Event.visit(key: "a", n: n))
        try await topology.send("visitors", Visitor.Event.visit(key: "b", n: n))
      }
      let seen = await versions.value
      #expect(seen == seen.sorted() && Set(seen).count == seen.count, "\(seen)")
      #expect(seen.last == 30)
    }
  }

  @Test("A remote model follows one instance and sends events to it")
  func remoteModel() async throws {
    try await withTopology(Visits.topology()) { topology in
      try await topology.send("visitors", Visitor.Event.visit(key: "a", n: 1))
      let model = try await RemoteModel<Visitor.State, Visitor.Event>(
        "visitors[a]", of: topology.client)
      #expect(model.state == .visited(times: 1, last: 1, wrong: 0))
      let outcome = try await model.send(.rest(key: "a"), resumeWhen: .rested(times: 1))
      #expect(outcome == .accepted(.rested(times: 1)))
    }
  }

  @Test("'why' explains the events of an instance, also of one that does not exist")
  func why() async throws {
    try await withTopology(Visits.topology(final: ["gone"])) { topology in
      let tool = CommandLineTool(beside: topology)
      try await topology.send("visitors", Visitor.Event.visit(key: "a", n: 1))
      let all = try await tool.run("why", "visitors[a]", code: 0)
      #expect(all.output.hasPrefix("visitors[a]  machine  visited("), "\(all)")
      try await tool.run("why", "visitors[a]", "rest", code: 0)
      let none = try await tool.run("why", "visitors[b]", "rest", code: 4)
      #expect(none.output.contains("new"), "\(none)")
      try await topology.send("visitors", Visitor.Event.leave(key: "a"))
      let ended = try await tool.run("why", "visitors[a]", #"{"visit":{"n":2}}"#, code: 4)
      #expect(ended.output.contains("the instance has ended in a final state"), "\(ended)")
      #expect(try await topology.status("visitors").status?.version == 2)
    }
  }

  @Test("'instances' lists by key, state and age, whether the node runs or not")
  func list() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let file = try tool.directory.write(Visits.topology().yaml, to: "visits.yaml")
    try await tool.run("up", "--wait", file, code: 0)
    for key in ["b", "a", "c"] {
      try await tool.run("send", "visitors[\(key)]", #"{"visit":{"n":1}}"#, code: 0)
    }
    try await tool.run("send", "visitors[c]", "leave", code: 0)
    func keys(_ arguments: String..., code: Int32 = 0) async throws -> [String] {
      let result = try await tool.result(
        of: tool.start(["instances", "visitors"] + arguments + ["-o", "json"]))
      #expect(result.code == code, "\(result)")
      let found = try JSONValue(parsing: Array(result.output.utf8))
      guard case .array(let rows) = found else { return [] }
      return rows.compactMap { row in
        guard case .object(let members) = row else { return nil }
        return members["key"]?.string
      }
    }
    // The node runs, and the database may lack the last steps.
    #expect(try await keys() == ["a", "b", "c"])
    #expect(try await keys("--state", "gone") == ["c"])
    #expect(try await keys("--after", "a", "-n", "1") == ["b"])
    #expect(try await keys("--older", "1h") == [])
    #expect(try await keys("b", "c") == ["b", "c"])
    let missing = try await tool.run("instances", "visitors", "x", code: 1)
    #expect(missing.error.contains("node 'visitors' has no instance 'x'"), "\(missing)")
    let cut = try await tool.run("instances", "visitors", "-n", "2", code: 0)
    #expect(cut.error.contains("there are more instances; '--after b' lists the next"), "\(cut)")
    try await tool.run("down", code: 0)
    #expect(try await keys() == ["a", "b", "c"])
    let unkeyed = try await tool.run("instances", "caller", code: 0)
    #expect(!unkeyed.output.contains("new"), "\(unkeyed)")
  }

  @Test("'check --explore' says that nodes with instances cannot be explored")
  func explore() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let file = try tool.directory.write(Visits.topology().yaml, to: "visits.yaml")
    let result = try await tool.run("check", "--explore", file, code: 1)
    #expect(result.error.contains("nodes with instances cannot be explored yet"), "\(result)")
  }
}
