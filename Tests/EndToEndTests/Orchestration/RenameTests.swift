import Glibc
import PipeClient
import PipeJournal
import PipeRuntime
import PipeRuntimeTestKit
import PipeWire
import TestNodes
import TestTraits
import Testing

/// Numbers that flow from a source to a sink. Each number that arrives makes two parties take an
/// event together, and each of these events makes a third party take a step. A further party ends
/// the load with an event in a pipe.
private struct RenamedNumbers {
  var source = "source"
  var sink = "sink"
  var left = "left"
  var pair = "pair"
  var third = "third"
  var pipe: String?
  /// The former names, by the present name.
  var was: [String: String] = [:]

  private func key(_ name: String?) -> String {
    name.flatMap { was[$0] }.map { ", was: ['\($0)']" } ?? ""
  }

  var yaml: String {
    let restart = "restart: { max: 1000, backoff: { initial: 10ms, max: 50ms } }"
    return """
      topology: ward
      program: TestNodes
      nodes:
        \(source): { machine: Source, \(restart)\(key(source)) }
        \(sink): { machine: Sink, \(restart)\(key(sink)) }
        \(left): { machine: Party, \(restart)\(key(left)) }
        right: { machine: Party, \(restart) }
        \(third): { machine: Party, \(restart)\(key(third)) }
        brake: { machine: Party, \(restart) }
      composites:
        \(pair): { components: [\(left), right], synchronize: [meet]\(key(pair)) }
      pipes:
        - { from: \(source).out, to: \(sink).in, capacity: 64\(pipe.map { ", name: \($0)" } ?? "")\(key(pipe)) }
        - { from: brake, when: unwilling, to: \(source), send: halt }
        - { from: \(sink), when: counting, to: \(pair), send: meet, capacity: 64 }
        - from: \(pair)
          when: { \(left): willing, right: willing }
          to: \(third)
          send: step
          capacity: 64
      timeouts: { start: 60s, heartbeat: 60s, stop: 60s }
      """
  }

  /// Makes the source send numbers until ``end(in:)``.
  func start(in topology: DetachedTopology) async throws {
    try await topology.run("send", source, #"{"go":{"count":\#(NumberLoad.limit)}}"#)
    try await arrive(in: topology)
  }

  /// Waits until more numbers have arrived at the third party.
  func arrive(_ count: UInt64 = 100, in topology: DetachedTopology) async throws {
    let version = try await reported(in: topology)[node: third]?.status?.version ?? 0
    try await topology.await("numbers arrive", within: .seconds(60)) {
      $0[node: third]?.status.map { $0.version > version + count } == true
    }
  }

  /// Returns the directory when each node has reported its status.
  private func reported(in topology: DetachedTopology) async throws -> TopologyDirectory {
    try await topology.await("each node's status", within: .seconds(60)) { directory in
      directory.nodes.allSatisfy { $0.isRunning && $0.status != nil }
    }
  }

  /// Ends the load, and checks that each number has arrived once and in order at each node.
  func end(in topology: DetachedTopology) async throws {
    // A source with a full pipe rejects the requests of clients. Under load, the pipe is nearly
    // always full, so that a client might never succeed. An event in a pipe waits for its turn.
    try await topology.run("send", "brake", #""disagree""#)
    let halted = try await topology.await("the source halts", within: .seconds(60)) {
      $0[node: source]?.status?.state?["idle"] != nil
    }
    let last = try #require(
      halted[node: source]?.status?.state?["idle"]?["sent"]?.integer.map { Int($0) })
    let counted = try JSONValue(encoding: Sink.State.counting(last: last, count: last, wrong: 0))
    // The initial states of the sink and of the composite cause one event each.
    let met = try JSONValue(encoding: Party.State.willing(met: last + 1, steps: 0))
    let stepped = try JSONValue(encoding: Party.State.willing(met: 0, steps: last + 2))
    let directory = try await topology.await("all numbers", within: .seconds(60)) {
      $0[node: sink]?.status?.state == counted && $0[node: left]?.status?.state == met
        && $0[node: "right"]?.status?.state == met && $0[node: third]?.status?.state == stepped
    }
    for node in directory.nodes {
      #expect(node.status?.gaps == 0, "\(node.name)")
      #expect(node.status?.deadLetters == 0, "\(node.name)")
    }
  }

  /// The names of the processes with a journal.
  var processes: [String] { [source, sink, left, "right", third, pair, "brake"].sorted() }

  /// Runs a topology with these names under load.
  static func with(
    failpoints: String? = nil, _ names: RenamedNumbers = RenamedNumbers(),
    _ body: (DetachedTopology, CommandLineTool) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = Set(names.processes)
      let plain = tool
      tool.environment["PIPERUNTIME_FAILPOINTS"] = failpoints
      let topology = try DetachedTopology(tool: tool, name: "ward", yaml: names.yaml)
      try await topology.up()
      try await names.start(in: topology)
      try await body(topology, plain)
    }
  }
}

@Suite("Renames by 'apply' and 'up'", .timed, .enabled(if: RecordedNodes.arePossible))
struct RenameTests {
  private static let renamed: [RenamedNumbers] = [
    RenamedNumbers(source: "origin", was: ["origin": "source"]),
    RenamedNumbers(sink: "basin", was: ["basin": "sink"]),
    RenamedNumbers(pipe: "numbers", was: ["numbers": "source.out->sink.in"]),
    RenamedNumbers(left: "near", was: ["near": "left"]),
    RenamedNumbers(pair: "couple", was: ["couple": "pair"]),
    RenamedNumbers(third: "witness", was: ["witness": "third"]),
    RenamedNumbers(
      source: "origin", sink: "basin", left: "near", pair: "couple", third: "witness",
      pipe: "numbers",
      was: [
        "origin": "source", "basin": "sink", "near": "left", "couple": "pair", "witness": "third",
        "numbers": "source.out->sink.in",
      ]),
  ]

  @Test(
    "'apply' renames nodes, pipes and composites under load, and every event is applied once",
    arguments: renamed.indices)
  func apply(index: Int) async throws {
    let renamed = Self.renamed[index]
    try await RenamedNumbers.with { topology, _ in
      try topology.write(renamed.yaml)
      let plan = try await topology.run("apply", "--dry-run", "ward.yaml").output
      for (name, former) in renamed.was {
        #expect(plan.contains("'\(former)' is renamed to '\(name)'\n"), "\(plan)")
      }
      try await topology.run("apply", "ward.yaml")
      try await renamed.arrive(in: topology)
      let journals = JournalReader.nodesWithJournals(in: try topology.directories.journals)
      #expect(journals == renamed.processes)
      // The key may stay in the file.
      let again = try await topology.run("apply", "ward.yaml")
      #expect(again.output == "ward: nothing to change\n", "\(again)")
      try await topology.run("kill", renamed.sink)
      try await renamed.arrive(in: topology)
      try await renamed.end(in: topology)
      let state = try topology.directories.state
      #expect(!FileSystem.exists(state + "/rename.json") && !FileSystem.exists(state + "/rename"))
    }
  }

  @Test("'up' renames as 'apply' does, after a graceful stop and after kills of all processes")
  func up() async throws {
    let all = Self.renamed[Self.renamed.count - 1]
    let back = RenamedNumbers(
      was: [
        "source": "origin", "sink": "basin", "left": "near", "pair": "couple", "third": "witness",
      ])
    try await RenamedNumbers.with { topology, _ in
      try await topology.run("down")
      try topology.write(all.yaml)
      try await topology.up()
      try await all.arrive(in: topology)
      try await topology.killOrchestrator()
      for process in topology.tool.directory.processes { process.kill() }
      var named = back
      named.pipe = "numbers"
      try topology.write(named.yaml)
      try await topology.up()
      try await named.arrive(in: topology)
      // The nodes survive this orchestrator, and the next one renames some of them.
      try await topology.killOrchestrator()
      var last = named
      last.sink = "drain"
      last.was = ["drain": "sink"]
      try topology.write(last.yaml)
      try await topology.up()
      try await last.arrive(in: topology)
      try await last.end(in: topology)
    }
  }

  @Test(
    "If the orchestrator is killed during a rename, all names are the former ones or the new ones",
    arguments: [
      ("rename.recorded", 1, false), ("rename.copied", 1, true), ("rename.written", 1, false),
      ("rename.written", 4, true), ("rename.moved", 1, true), ("rename.moved", 3, false),
      ("rename.moved", 5, true), ("rename.committed", 1, false), ("rename.restored", 1, true),
    ])
  func killed(failpoint: String, hit: Int, goesBack: Bool) async throws {
    let all = Self.renamed[Self.renamed.count - 1]
    var failpoints = "orchestrator:\(failpoint)=crash@\(hit)"
    // The first crash leaves a rename to undo, and the next orchestrator is killed as it does so.
    if failpoint == "rename.restored" { failpoints = "orchestrator:rename.moved=crash@2" }
    try await RenamedNumbers.with(failpoints: failpoints) { topology, tool in
      try topology.write(all.yaml)
      let applied = try await topology.tool.result(
        of: topology.tool.start(["apply", "ward.yaml"]), within: .seconds(60))
      #expect(applied.code != 0, "\(applied)")
      let directories = try topology.directories
      let isGone: Bool? = try await poll(within: .seconds(20)) {
        RunningTopology.find(directories) == nil ? true : nil
      }
      #expect(isGone == true)
      if failpoint == "rename.restored" {
        var tool = tool
        tool.environment["PIPERUNTIME_FAILPOINTS"] = "orchestrator:rename.restored=crash"
        let up = try await tool.run("up", "--wait", "ward.yaml", within: .seconds(60))
        #expect(up.code != 0, "\(up)")
      }
      let names = goesBack ? RenamedNumbers() : all
      let next = try DetachedTopology(tool: tool, name: "ward", yaml: names.yaml)
      try await next.up()
      let journals = JournalReader.nodesWithJournals(in: directories.journals)
      #expect(journals == names.processes)
      try await names.arrive(in: next)
      try await names.end(in: next)
      #expect(!FileSystem.exists(directories.state + "/rename.json"))
      #expect(!FileSystem.exists(directories.state + "/rename"))
    }
  }

  /// A caller of a node with two shards, whose names may be new.
  private static func visits(_ caller: String, _ visitors: String, was: (String, String)?) -> String
  {
    """
    topology: visits
    program: TestNodes
    nodes:
      \(caller): { machine: Caller\(was.map { ", was: [\($0.0)]" } ?? "") }
      \(visitors): { machine: Visitor, key: key, shards: 2\(was.map { ", was: [\($0.1)]" } ?? "") }
    pipes: [{ from: \(caller).out, to: \(visitors).in, capacity: 64 }]
    timeouts: { start: 60s, heartbeat: 60s, stop: 60s }
    """
  }

  @Test("'apply' renames the shards of a keyed node and their sender, and no visit is lost")
  func shards() async throws {
    let (count, keys) = (2_000, 10)
    let before = Self.visits("caller", "visitors", was: nil)
    try await DetachedTopology.with(before, name: "visits") { topology in
      let client = try topology.client()
      defer { client.close() }
      try await client.send("caller", Caller.Event.go(count: count, keys: keys))
      try topology.write(Self.visits("phone", "guests", was: ("caller", "visitors")))
      try await topology.run("apply", "visits.yaml")
      for key in 0..<keys {
        let last = Int64((1...count).last { $0 % keys == key } ?? 0)
        let wanted: JSONValue = [
          "visited": ["times": .integer(Int64(count / keys)), "last": .integer(last), "wrong": 0]
        ]
        let change = try await client.wait(for: "guests[k\(key)]", within: .seconds(60)) {
          $0 == wanted
        }
        #expect(change.node == "guests[k\(key)]")
      }
      let journals = JournalReader.nodesWithJournals(in: try topology.directories.journals)
      #expect(journals == ["guests.0", "guests.1", "phone"])
    }
  }

  @Test("A name that a node records for the first time after the plan was made changes as well")
  func recordedAfterPlan() async throws {
    func yaml(_ pair: String, was: String? = nil) -> String {
      """
      topology: ward
      program: TestNodes
      nodes: { left: { machine: Party }, right: { machine: Party }, third: { machine: Party } }
      composites:
        \(pair):
          components: [left, right]
          synchronize: [meet, agree, disagree]\(was.map { "\n    was: [\($0)]" } ?? "")
      pipes:
        - { from: \(pair), when: { left: unwilling, right: unwilling }, to: third, send: step }
      timeouts: { start: 60s, heartbeat: 60s, stop: 3s }
      """
    }
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["third"]
      // The receiver records the first event, and then stops before it acknowledges the event.
      tool.environment["PIPERUNTIME_FAILPOINTS"] = "third:record.after=stop@2/1"
      let topology = try DetachedTopology(tool: tool, name: "ward", yaml: yaml("pair"))
      try await topology.up()
      let pid = try #require(try await topology.pids()["third"])
      #expect(kill(pid, SIGSTOP) == 0)
      try await topology.run("send", "pair", #""disagree""#)
      try await topology.await("the event is queued", within: .seconds(60)) {
        $0[node: "pair"]?.status?.outs.contains { $0.events == 1 } == true
      }
      let client = try topology.client()
      defer { client.close() }
      let planned = try await client.plan(
        ChangeRequest(
          file: try tool.directory.write(yaml("couple", was: "pair"), to: "ward.yaml"),
          variables: [:], keepsName: false, isDryRun: false),
        within: .seconds(60))
      #expect(kill(pid, SIGCONT) == 0)
      let isStopped: Bool? = try await poll(within: .seconds(50)) {
        let stat = FileSystem.contents(of: "/proc/\(pid)/stat") ?? []
        return String(decoding: stat, as: UTF8.self).contains(") T ") ? true : nil
      }
      try #require(isStopped == true)
      // The receiver is killed, because it does not stop gracefully.
      await #expect(throws: TopologyClientError.self) {
        try await client.apply(planned, within: .seconds(60))
      }
      for event in ["agree", "disagree"] {
        try await topology.run("send", "couple", #""\#(event)""#)
      }
      let directory = try await topology.await("the second event", within: .seconds(60)) {
        $0[node: "third"]?.status?.ins.contains { $0.applied == 2 } == true
      }
      let state = try JSONValue(encoding: Party.State.willing(met: 0, steps: 2))
      #expect(directory[node: "third"]?.status?.state == state)
    }
  }

  @Test("'apply' names a removed node whose journal has undelivered events, and keeps its journal")
  func removed() async throws {
    try await RenamedNumbers.with { topology, _ in
      try await topology.run("stop", "sink")
      try topology.write(
        RenamedNumbers(source: "origin").yaml)
      let applied = try await topology.run("apply", "ward.yaml")
      #expect(
        applied.error.contains("node 'source' is not in the file any more, and its journal has"),
        "\(applied)")
      #expect(FileSystem.exists(try topology.directories.journal(of: "source")))
      // The former name can still be added, but only to a node without a journal of its own.
      try topology.write(RenamedNumbers(source: "origin", was: ["origin": "source"]).yaml)
      let refused = try await topology.run("apply", "ward.yaml", code: 1)
      #expect(
        refused.error.contains("node 'origin' cannot have the journal of 'source'"), "\(refused)")
      try await topology.run("stop", "origin")
      try await topology.run("reset", "origin")
      try await topology.run("down")
      try await topology.up()
      let renamed = RenamedNumbers(source: "origin")
      try await renamed.end(in: topology)
    }
  }
}
