import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("The commands for nodes with instances", .timed)
struct InstanceCommandTests {
  @Test("'send NODE[KEY]' sets the key field of the event")
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
      #expect(bad.error.contains("'caller[a]'"), "\(bad)")
      let empty = try await tool.run("send", "visitors[]", "rest", code: 2)
      #expect(empty.error.contains("instances are NODE[KEY]"), "\(empty)")
    }
  }

  @Test("'wait' waits for the state of an instance, even if the instance does not exist yet")
  func wait() async throws {
    try await withTopology(Visits.topology()) { topology in
      let tool = CommandLineTool(beside: topology)
      let waiting = try tool.start(["wait", "visitors[late]=visited", "--timeout", "60s"])
      try await topology.send("visitors", Visitor.Event.visit(key: "other", n: 1))
      try await topology.send("visitors", Visitor.Event.visit(key: "late", n: 1))
      let found = try await tool.result(of: waiting)
      #expect(found.code == 0, "\(found)")
      #expect(found.output.hasPrefix("visitors[late]: visited("), "\(found)")
      // 'wait' succeeds at once if the instance is already in the state.
      try await tool.run("wait", "visitors[other]=visited", "--timeout", "60s", code: 0)
      let timedOut = try await tool.run(
        "wait", "visitors[none]=visited", "--timeout", "200ms", code: 124)
      #expect(
        timedOut.error.contains("'visitors[none]' "), "\(timedOut)")
      let typo = try await tool.run("wait", "visitors[a]=visitd", code: 2)
      #expect(typo.error.contains(Suggestion.hint("visited")), "\(typo)")
    }
  }

  @Test("'wait' waits for the number of instances in a state")
  func waitForCounts() async throws {
    try await withTopology(Visits.topology()) { topology in
      let tool = CommandLineTool(beside: topology)
      let waiting = try tool.start(
        ["wait", #"visitors={"visited":2,"resting":1,"new":0}"#, "--timeout", "60s"])
      for key in ["a", "b", "c"] {
        try await topology.send("visitors", Visitor.Event.visit(key: key, n: 1))
      }
      _ = try await tool.run("send", "visitors[a]", "rest", code: 0)
      let found = try await tool.result(of: waiting)
      #expect(found.code == 0 && found.output.hasPrefix("visitors: "), "\(found)")
      let timedOut = try await tool.run(
        "wait", #"visitors={"visited":3}"#, "--timeout", "200ms", code: 124)
      #expect(timedOut.error.contains("visited: 2"), "\(timedOut)")
      for label in ["visited", #"{"visited":-1}"#, #"{"visited":{"times":1}}"#] {
        let refused = try await tool.run("wait", "visitors=" + label, code: 2)
        #expect(refused.error.contains("for each value of 'key'"), "\(refused)")
      }
      let typo = try await tool.run("wait", #"visitors={"visitd":1}"#, code: 2)
      #expect(typo.error.contains(Suggestion.hint("visited")), "\(typo)")
    }
  }

  @Test("A follower of one instance gets each of the instance's states once, even across kills")
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

  @Test("A remote model follows one instance, and sends events to this instance")
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

  @Test("'why' explains the events of an instance, even if the instance does not exist yet")
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
      #expect(ended.output.contains(Refusal.ended.wording), "\(ended)")
      #expect(try await topology.status("visitors").status?.version == 2)
    }
  }

  @Test("'instances' lists instances by key, state or age, whether the node runs or not")
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

  @Test("'check --explore' reports an event for an instance whose key the search does not cover")
  func explore() async throws {
    let tool = try CommandLineTool()
    defer { tool.remove() }
    let explore = """

      explore:
        from_outside: { caller: [{ go: { count: 1, keys: 1 } }], visitors: [rest] }
        values: { visitors.rest: { key: [k0] } }
        gives: { caller: { goOn: [next] }, visitors: { rest: [woke] } }

      """
    let yaml = Visits.topology().yaml
    try tool.directory.write(yaml + explore, to: "named.yaml")
    try tool.directory.write(
      yaml
        + explore.replacing(", visitors: [rest] }", with: " }").replacing(
          "  values: { visitors.rest: { key: [k0] } }\n", with: ""), to: "unnamed.yaml")
    let message = "an event for instance 'visitors[k0]' was discarded"
    let unnamed = try await tool.run(
      "check", "--explore", "--node-states", "20", "unnamed.yaml", code: 6)
    #expect(unnamed.output.contains(message), "\(unnamed)")
    // A visitor that rests refuses the next visit.
    let named = try await tool.run(
      "check", "--explore", "--node-states", "20", "named.yaml", code: 1)
    #expect(!named.output.contains(message), "\(named)")
    #expect(named.output.contains("the keys 'a', 'b', 'k0' of 'visitors'"), "\(named)")
  }
}
