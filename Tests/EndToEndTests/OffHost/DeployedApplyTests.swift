import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("'apply' on a deployed topology", .timed)
struct DeployedApplyTests {
  private static let restart = "restart: { max: 100, backoff: { initial: 20ms } }"

  /// A pipe and a composite across two placements, another node, and a monitor of all nodes.
  private static let before = """
    topology: ward
    program: TestNodes
    nodes:
      source: { machine: Source, place: front, \(restart) }
      sink: { machine: Sink, place: back, parameters: { work: 1000 }, \(restart) }
      left: { machine: Party, place: front }
      right: { machine: Party, place: side }
      gone: { machine: Button, place: front }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    pipes:
      - { from: source.out, to: sink.in, name: numbers }
    """

  /// The topology with `gone` replaced by `added`, whose presses trigger the composite.
  private static let after =
    before.replacing("gone:", with: "added:")
    + "\n  - { from: added, when: pressed, to: pair, send: meet, name: meetings }\n"

  private static let lab = """
    address: 127.0.0.3
    places:
      front: { address: 127.0.0.1 }
      back: { address: 127.0.0.2 }
      side: { address: 127.0.0.2 }
    """

  @Test("'apply' adds, removes and moves nodes, while other nodes continue and no event is lost")
  func applies() async throws {
    try await DetachedTopology.with(Self.before, deployment: Self.lab) { ward in
      var ward = ward
      let client = try ward.client()
      defer { client.close() }
      let first = try await ward.pids()
      let key = try ward.directories.keyFile(of: "gone")
      #expect(FileSystem.exists(key))
      try await client.startNumbers()
      try await ward.waitUntilNumbersArrive(200)
      try ward.write(Self.after)
      let applied = try await ward.run("apply", "ward.yaml")
      #expect(applied.output.hasPrefix("ward: 1 node added, 1 removed, 1 restarted"), "\(applied)")
      #expect(!FileSystem.exists(key))
      let second = try await ward.pids()
      #expect(second["source"] == first["source"] && second["sink"] == first["sink"])
      #expect(second["gone"] == nil && second["added"] != nil)
      #expect(ward.alive([first["gone"] ?? 0]).isEmpty)
      // The entry into the first state triggers one event, and this press another.
      try await client.send("added", Button.Event.press)
      let met = try JSONValue(encoding: Party.State.willing(met: 2, steps: 0))
      try await ward.await("both have met") {
        $0[node: "left"]?.status?.state == met && $0[node: "right"]?.status?.state == met
      }

      // The same topology, with one place moved to another address.
      try await ward.waitUntilNumbersArrive(200)
      try ward.deploy(
        by: Self.lab.replacing("back: { address: 127.0.0.2", with: "back: { address: 127.0.0.4"))
      let dry = try await ward.run("apply", "--dry-run", "ward.yaml")
      #expect(
        dry.output.contains("\(ProcessRecord.Difference.place(wanted: "127.0.0.4"))"), "\(dry)")
      try await ward.run("apply", "ward.yaml")
      let moved = try await ward.directory()
      #expect(moved[node: "sink"]?.inbox.hasPrefix("tcp://127.0.0.4:") == true)
      for node in moved.nodes { #expect((node.pid == second[node.name]) == (node.name != "sink")) }
      let count = try await ward.endNumbers()
      try await ward.waitUntilAllArrived(count)

      // The next orchestrator finds the applied files, too.
      try await ward.killOrchestrator()
      #expect(try await ward.up().hasPrefix("ward: running, 6 nodes adopted"))
      try await client.send("source", Source.Event.go(count: 10))
      try await ward.waitUntilAllArrived(count + 10)
    }
  }

  @Test("'apply' applies another deployment file, and 'ls' shows that file afterwards")
  func otherFile() async throws {
    try await DetachedTopology.with(Self.before, deployment: Self.lab) { ward in
      let pids = try await ward.pids()
      try ward.tool.directory.write(
        Self.lab.replacing("side: { address: 127.0.0.2", with: "side: { address: 127.0.0.5"),
        to: "other.yaml")
      try await ward.run("apply", "ward.yaml", "--deployment", "other.yaml")
      let directory = try await ward.directory()
      #expect(directory[node: "right"]?.inbox.hasPrefix("tcp://127.0.0.5:") == true)
      #expect(directory[node: "sink"]?.pid == pids["sink"])
      let list = try await ward.run("ls", "-o", "json")
      #expect(list.output.contains("\(ward.tool.directory.path)/other.yaml"), "\(list)")
    }
  }

  @Test("'apply' refuses a bad deployment, a changed orchestrator address, and an added deployment")
  func refusals() async throws {
    try await DetachedTopology.with(Self.before, deployment: Self.lab) { ward in
      let pids = try await ward.pids()
      let files = ward.tool.directory
      try files.write(Self.lab.replacing("127.0.0.3", with: "127.0.0.6"), to: "address.yaml")
      let address = try await ward.run(
        "apply", "ward.yaml", "--deployment", "address.yaml", code: 1)
      #expect(address.error.contains("to '127.0.0.6' while the topology is running"), "\(address)")
      try files.write(Self.lab.replacing("side", with: "front2"), to: "place.yaml")
      let place = try await ward.run("apply", "ward.yaml", "--deployment", "place.yaml", code: 2)
      #expect(place.error.contains("[unknown-place]"), "\(place)")
      try files.write(Self.lab.replacing("127.0.0.2", with: "192.0.2.1"), to: "foreign.yaml")
      let foreign = try await ward.run(
        "apply", "ward.yaml", "--deployment", "foreign.yaml", code: 2)
      #expect(foreign.error.contains("[foreign-address]"), "\(foreign)")
      #expect(try await ward.pids() == pids)
    }
    try await DetachedTopology.with(Self.before) { ward in
      try ward.tool.directory.write(Self.lab, to: "lab.yaml")
      let refused = try await ward.run("apply", "ward.yaml", "--deployment", "lab.yaml", code: 1)
      #expect(refused.error.contains("cannot change to a deployment"), "\(refused)")
    }
  }
}
