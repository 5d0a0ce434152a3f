import Glibc
import PipeJournal
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("Keyed nodes that are divided among shards", .timed)
struct ShardTests {
  /// A caller of visitors, whose node has this number of shards.
  private static func visits(shards: Int, capacity: Int = 64, resident: Int = 100) -> String {
    """
    topology: visits
    program: TestNodes
    nodes:
      caller: { machine: Caller, restart: { max: 1000, backoff: { initial: 10ms, max: 50ms } } }
      visitors:
        machine: Visitor
        key: key
        shards: \(shards)
        resident: \(resident)
        restart: { max: 1000, backoff: { initial: 10ms, max: 50ms } }
    pipes:
      - { from: caller.out, to: visitors.in, name: visits, capacity: \(capacity) }
    timeouts: { start: 60s, heartbeat: 60s, stop: 60s }
    """
  }

  /// Waits until each key has had its share of the visits, each once and in order.
  private static func expect(
    _ count: Int, keys: Int, in topology: DetachedTopology
  ) async throws {
    let client = try topology.client()
    defer { client.close() }
    for key in 0..<keys {
      let times = Int64((1...count).count { $0 % keys == key })
      let last = Int64((1...count).last { $0 % keys == key } ?? 0)
      let wanted: JSONValue = [
        "visited": ["times": .integer(times), "last": .integer(last), "wrong": 0]
      ]
      let change = try await client.wait(for: "visitors[k\(key)]", within: .seconds(60)) {
        $0 == wanted
      }
      #expect(change.node == "visitors[k\(key)]")
    }
  }

  @Test("Each instance is in the shard that owns its key, and clients need only the node's name")
  func separate() async throws {
    try await DetachedTopology.with(Self.visits(shards: 3), name: "visits") { topology in
      let client = try topology.client()
      defer { client.close() }
      for key in 0..<30 {
        let outcome = try await client.send(
          key.isMultiple(of: 2) ? "visitors" : "visitors[\(key)]",
          Visitor.Event.visit(key: "\(key)", n: 1))
        #expect(
          outcome
            == .accepted(version: 1, state: ["visited": ["times": 1, "last": 1, "wrong": 0]]))
      }
      let directory = try await topology.await("30 instances") { directory in
        let states = directory.nodes.compactMap { $0.shard == nil ? nil : $0.status?.state }
        let counts = states.compactMap { state -> Int64? in
          guard case .object(let members) = state, case .integer(let count)? = members["visited"]
          else { return nil }
          return count
        }
        return counts.count == 3 && counts.reduce(0, +) == 30
      }
      #expect(
        directory.nodes.compactMap(\.shard?.name) == ["visitors.0", "visitors.1", "visitors.2"])
      let listed = try await topology.run("instances", "visitors", "-n", "7").output
      #expect(listed.split(separator: "\n").count == 8, "\(listed)")
      let why = try await topology.run("why", "visitors[17]").output
      #expect(why.contains("visit"), "\(why)")
    }
  }

  @Test("A shard refuses an event for an instance of another shard, and names that shard")
  func otherShard() async throws {
    try await DetachedTopology.with(Self.visits(shards: 2), name: "visits") { topology in
      let client = try topology.client()
      defer { client.close() }
      var refusals: [String] = []
      for shard in ["visitors.0", "visitors.1"] {
        do {
          try await client.send(shard, Visitor.Event.visit(key: "a", n: 1))
        } catch {
          refusals.append("\(error)")
        }
      }
      #expect(refusals.count == 1)
      #expect(
        refusals.first?.contains("the instance 'a' belongs to shard 'visitors.") == true,
        "\(refusals)")
      await #expect(
        throws: TopologyClientError.hasShards("visitors", first: "visitors.0", count: 2)
      ) {
        _ = try await client.why("visitors", json: "woke")
      }
    }
  }

  @Test(
    "Events of many keys are applied once and in order while shards and their sender are killed")
  func killed() async throws {
    let (count, keys) = (2_000, 20)
    try await DetachedTopology.with(Self.visits(shards: 3, resident: 3), name: "visits") {
      topology in
      let client = try topology.client()
      defer { client.close() }
      try await client.send("caller", Caller.Event.go(count: count, keys: keys))
      for part in 1...6 {
        try await topology.await("\(part * 250) visits", within: .seconds(60)) { directory in
          Self.steps(directory) >= UInt64(part * 250)
        }
        try await topology.run("kill", ["caller", "visitors.\(part % 3)"][part % 2])
      }
      try await Self.expect(count, keys: keys, in: topology)
      let directory = try await Self.reported(topology)
      #expect(Self.steps(directory) == UInt64(count))
      #expect(directory.nodes.allSatisfy { $0.status?.gaps == 0 })
    }
  }

  /// Returns the directory when each node has reported its status: a restarted node needs a moment.
  private static func reported(_ topology: DetachedTopology) async throws -> TopologyDirectory {
    try await topology.await("each node's status") { directory in
      directory.nodes.allSatisfy { $0.isRunning && $0.status != nil }
    }
  }

  private static func steps(_ directory: TopologyDirectory) -> UInt64 {
    directory.nodes.reduce(0) { $1.shard == nil ? $0 : $0 + ($1.status?.version ?? 0) }
  }

  @Test("'apply' changes the number of shards without losing or repeating an event")
  func moves() async throws {
    let (count, keys) = (6_000, 40)
    try await DetachedTopology.with(Self.visits(shards: 2), name: "visits") { topology in
      let client = try topology.client()
      defer { client.close() }
      try await client.send("caller", Caller.Event.go(count: count, keys: keys))
      for shards in [5, 3, 1, 4] {
        try topology.write(Self.visits(shards: shards))
        try await topology.run("apply", "visits.yaml")
        try await topology.run("kill", "caller")
      }
      try await Self.expect(count, keys: keys, in: topology)
      let directory = try await Self.reported(topology)
      #expect(directory.nodes.compactMap(\.shard?.count) == [4, 4, 4, 4])
      #expect(directory.nodes.allSatisfy { $0.status?.gaps == 0 })
      let letters = directory.nodes.reduce(0) { $0 + ($1.status?.deadLetters ?? 0) }
      #expect(letters == 0)
      let journals = JournalReader.nodesWithJournals(in: try topology.directories.journals)
      #expect(journals == ["caller"] + (0..<4).map { "visitors.\($0)" })
    }
  }

  @Test("A request that waits for a removed shard is accepted by the new shard of its instance")
  func removedShard() async throws {
    try await DetachedTopology.with(Self.visits(shards: 3), name: "visits") { topology in
      let directory = try await topology.directory()
      let keys = (0..<30).map { "k\($0)" }
      let key = try #require(
        keys.first {
          guard let key = try? InstanceKey($0) else { return false }
          return directory.host(of: key, in: "visitors")?.name == "visitors.2"
        })
      // A client cannot connect to a socket whose file was removed.
      let inbox = try #require(directory[node: "visitors.2"]?.inbox)
      #expect(unlink(String(inbox.dropFirst("ipc://".count))) == 0)
      let client = try topology.client()
      defer { client.close() }
      let event = Visitor.Event.visit(key: key, n: 1)
      async let outcome = client.send("visitors[\(key)]", event, timeout: .seconds(3600))
      await #expect(throws: TopologyClientError.self) {
        try await client.send("visitors[\(key)]", event, timeout: .milliseconds(300))
      }
      try topology.write(Self.visits(shards: 2))
      try await topology.run("apply", "visits.yaml")
      let first: JSONValue = ["visited": ["times": 1, "last": 1, "wrong": 0]]
      #expect(try await outcome == .accepted(version: 1, state: first))
    }
  }

  @Test(
    "The next start completes an interrupted move of instances, and every event is applied once",
    arguments: [
      ("shards.routed", 1), ("shards.copied", 1), ("shards.copied", 5), ("shards.trimmed", 2),
      ("shards.removed", 1), ("write.after", 2),
    ])
  func interrupted(failpoint: String, hit: Int) async throws {
    let (count, keys) = (400, 12)
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment["PIPERUNTIME_FAILPOINTS"] = "orchestrator:\(failpoint)=crash@\(hit)"
      let topology = try DetachedTopology(
        tool: tool, name: "visits", yaml: Self.visits(shards: 4, capacity: 8))
      try await topology.up()
      let client = try topology.client()
      try await client.send("caller", Caller.Event.go(count: count, keys: keys))
      client.close()
      // While a receiver is stopped, its sender keeps the undelivered events.
      try await topology.run("stop", "visitors.1")
      try topology.write(Self.visits(shards: 3, capacity: 8))
      let applied = try await tool.result(
        of: tool.start(CommandLineTool.withLongTimeout(["apply", "visits.yaml"])),
        within: .seconds(60))
      tool.environment = [:]
      let next = try DetachedTopology(
        tool: tool, name: "visits", yaml: Self.visits(shards: 3, capacity: 8))
      if applied.code == 0 {
        // The failpoint was reached less often, so 'apply' succeeded.
        try await next.run("start", "visitors")
      } else {
        let directories = try topology.directories
        let hasEnded: Bool? = try await poll(within: .seconds(20)) {
          RunningTopology.find(directories) == nil ? true : nil
        }
        try #require(hasEnded == true, "\(applied)")
        try await next.up()
      }
      try await Self.expect(count, keys: keys, in: next)
      let directory = try await Self.reported(next)
      #expect(directory.nodes.compactMap(\.shard?.count) == [3, 3, 3])
      #expect(directory.nodes.allSatisfy { $0.status?.gaps == 0 })
    }
  }

  @Test(
    "If the disk is full during a move of instances, no shard starts until the move is complete")
  func fullDisk() async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.environment["PIPERUNTIME_FAILPOINTS"] = "orchestrator:record.error=error@2"
      let topology = try DetachedTopology(tool: tool, name: "visits", yaml: Self.visits(shards: 2))
      try await topology.up()
      let client = try topology.client()
      for key in 0..<12 {
        try await client.send("visitors", Visitor.Event.visit(key: "k\(key)", n: 1))
      }
      client.close()
      try topology.write(Self.visits(shards: 3))
      let refused = try await topology.run("apply", "visits.yaml", code: 1).error
      #expect(refused.contains("the disk is full"), "\(refused)")
      #expect(refused.contains("the stopped nodes stay stopped"), "\(refused)")
      let start = try await topology.run("start", "visitors.0", code: 1).error
      #expect(start.contains("is not complete"), "\(start)")
      try await topology.run("down")
      tool.environment = [:]
      let next = try DetachedTopology(tool: tool, name: "visits", yaml: Self.visits(shards: 3))
      try await next.up()
      let directory = try await Self.reported(next)
      #expect(directory.nodes.compactMap(\.shard?.count) == [3, 3, 3])
      let later = try next.client()
      defer { later.close() }
      for key in 0..<12 {
        let outcome = try await later.send("visitors", Visitor.Event.visit(key: "k\(key)", n: 2))
        #expect(
          outcome
            == .accepted(version: 2, state: ["visited": ["times": 2, "last": 2, "wrong": 0]]))
      }
    }
  }

  @Test("An effect that runs while its instance moves to another shard keeps its idempotency key")
  func effects() async throws {
    let keys = (0..<8).map { "k\($0)" }
    let ledger = "/tmp/prt-ledger-\(UInt64.random(in: 0...UInt64.max))"
    defer { unlink(ledger) }
    func yaml(_ shards: Int, time: Int) -> String {
      Self.visits(shards: shards).replacing(
        "    machine: Visitor\n",
        with: "    machine: Visitor\n    parameters: { ledger: \(ledger), time: \(time) }\n")
    }
    try await DetachedTopology.with(yaml(1, time: 600_000), name: "visits") { topology in
      let client = try topology.client()
      for key in keys {
        try await client.send("visitors", Visitor.Event.visit(key: key, n: 1))
        try await client.send("visitors", Visitor.Event.rest(key: key))
      }
      client.close()
      let hasBegun: Bool? = try await poll(within: .seconds(20)) {
        Self.lines(of: ledger).count == keys.count ? true : nil
      }
      #expect(hasBegun == true)
      try topology.write(yaml(4, time: 0))
      try await topology.run("apply", "visits.yaml")
      let later = try topology.client()
      defer { later.close() }
      for key in keys {
        _ = try await later.wait(for: "visitors[\(key)]", within: .seconds(30)) {
          $0 == ["rested": ["times": 1]]
        }
      }
      let runs = Self.lines(of: ledger)
      #expect(runs.count == 2 * keys.count)
      #expect(Set(runs).count == keys.count, "\(runs)")
    }
  }

  private static func lines(of path: String) -> [String] {
    let text = String(decoding: FileSystem.contents(of: path) ?? [], as: UTF8.self)
    return text.split(separator: "\n").map(String.init)
  }

  @Test("'apply' keeps the former shards if an event of the node cannot be delivered")
  func undelivered() async throws {
    try await DetachedTopology.with(Self.orders(shards: 2), name: "visits") { topology in
      let client = try topology.client()
      defer { client.close() }
      try await topology.run("stop", "shipments")
      try await client.send("orders[1]", json: ["place": ["amount": 1]])
      try await client.send("orders[1]", json: "pay")
      try topology.write(Self.orders(shards: 3))
      let error = try await topology.run("apply", "visits.yaml", code: 1).error
      #expect(error.contains("1 undelivered event of pipe"), "\(error)")
      #expect(error.contains("nothing was changed"), "\(error)")
      try await topology.await("the former shards to run") { directory in
        directory.nodes.filter { $0.shard?.count == 2 && $0.isRunning }.count == 2
      }
      try await topology.run("start", "shipments")
      _ = try await client.wait(for: "shipments[1]", within: .seconds(30)) { $0.caseName != nil }
      try await topology.run("apply", "visits.yaml")
      _ = try await client.wait(for: "orders[1]", within: .seconds(30)) { $0.caseName == "paid" }
    }
  }

  @Test(
    "'up' starts the former shards if an event is undelivered, and a later 'apply' moves instances")
  func undeliveredAtStart() async throws {
    try await DetachedTopology.with(Self.orders(shards: 2), name: "visits") { topology in
      let client = try topology.client()
      defer { client.close() }
      try await topology.run("stop", "shipments")
      try await client.send("orders[1]", json: ["place": ["amount": 1]])
      try await client.send("orders[1]", json: "pay")
      try await topology.run("down")
      try topology.write(Self.orders(shards: 3))
      let started = try await topology.run("up", "-d", "visits.yaml")
      #expect(
        started.error.contains("'orders' starts with its former 2 shards"), "\(started)")
      let later = try topology.client()
      defer { later.close() }
      _ = try await later.wait(for: "shipments[1]", within: .seconds(30)) { $0.caseName != nil }
      let former = try await Self.reported(topology)
      #expect(former.nodes.compactMap(\.shard?.count) == [2, 2])
      try await topology.run("apply", "visits.yaml")
      let directory = try await Self.reported(topology)
      #expect(directory.nodes.compactMap(\.shard?.count) == [3, 3, 3])
      #expect(directory.nodes.allSatisfy { $0.status?.gaps == 0 })
      let outcome = try await later.send("orders[1]", json: "ship")
      #expect(outcome == .accepted(version: 3, state: ["shipped": ["amount": 1]]))
    }
  }

  /// Returns a topology whose orders send an event when they are paid.
  private static func orders(shards: Int) -> String {
    """
    topology: visits
    program: nodes
    nodes:
      orders: { machine: Order, key: order, shards: \(shards) }
      shipments: { machine: Shipment, key: order }
    pipes:
      - { from: orders, when: paid, to: shipments, send: { pack: { order: $key } } }
    timeouts: { stop: 2s }
    """
  }
}
