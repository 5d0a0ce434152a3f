import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

@Suite("A coordinator with a lost or older journal", .timed)
struct ForeignCoordinatorJournalTests {
  /// A loss of the files of the coordinator's journal.
  enum Loss: CaseIterable {
    case removed
    /// Replaced by a consistent copy from before the last commit.
    case older
    /// Replaced by a consistent copy from before the coordinator's last start.
    case ofEarlierStart
  }

  private static let names = ["a", "b", "c"]

  /// Three participants. Two of them are suspended when they receive their second commit.
  private static let three = Topology(
    name: "three", program: "TestNodes",
    environment: [
      FailpointCounter.rulesVariable: "b:commit.received=stop@2/1,c:commit.received=stop@2/1"
    ],
    nodes: names.map { .machine("Party", name: $0, restart: Parties.quick) },
    composites: [
      CompositeSpecification(name: "trio", components: names, synchronize: ["meet"])
    ],
    timeouts: Timeouts(start: .seconds(60), heartbeat: .seconds(60), stop: .seconds(3)))

  /// Brings the three nodes to a state where one has taken the second event and two are prepared
  /// for this event. Their coordinator has ended, and its journal is complete.
  /// - Returns: The coordinator's journal, and its former files.
  private static func tear(
    _ topology: TopologyHarness, _ loss: Loss
  ) async throws -> (file: JournalFile, before: [String: [UInt8]]) {
    #expect(try await topology.meet("trio").isCommitted)
    try await expect(topology, ["a": 1, "b": 1, "c": 1])
    let file = try JournalFile(of: "trio", in: topology)
    if loss == .ofEarlierStart { try await topology.stop("trio") }
    let before = try file.contents()
    if loss == .ofEarlierStart { try await topology.start("trio") }
    #expect(try await topology.meet("trio").isCommitted)
    try await expect(topology, ["a": 2])
    // The coordinator waits for the two suspended participants, and is killed.
    try? await topology.stop("trio")
    try await topology.expectStatus(of: "trio", "its end") { $0.pid == nil && !$0.isRunning }
    for name in ["b", "c"] { try await topology.kill(name) }
    try await expectPromised(topology)
    return (file, before)
  }

  private static func expect(_ topology: TopologyHarness, _ met: [String: Int]) async throws {
    for (name, count) in met.sorted(by: { $0.key < $1.key }) {
      let state = try JSONValue(encoding: Party.State.willing(met: count, steps: 0))
      try await topology.expectStatus(of: name, "\(count) events") { $0.status?.state == state }
    }
  }

  /// Waits until both prepared participants ask for the outcome.
  private static func expectPromised(_ topology: TopologyHarness) async throws {
    for name in ["b", "c"] {
      try await topology.expectStatus(of: name, "a promised event") {
        $0.isRunning && $0.incarnation == 2 && $0.status?.doubt != nil
      }
    }
  }

  private static func exchange(
    _ file: JournalFile, _ loss: Loss, for before: [String: [UInt8]]
  ) throws {
    try file.replace(with: loss == .removed ? [:] : before)
  }

  /// Starts the coordinator, and expects it to report the error and to fail at once.
  private static func expectRefusal(
    of topology: TopologyHarness, _ loss: Loss, _ file: JournalFile
  ) async throws {
    // The coordinator may run for a moment, before the participants have joined.
    try? await topology.start("trio")
    let trio = try await topology.expectStatus(of: "trio", "its failure") { $0.phase == "failed" }
    let reason = try #require(trio.reason)
    let says =
      switch loss {
      case .removed: "under the former journal of this composite"
      case .older: "the journal is an older copy"
      case .ofEarlierStart: "the journal is an older copy"
      }
    for part in ["'\(file.path)' is damaged", says, "'orchestrator reset trio'"] {
      #expect(reason.contains(part), "\(reason)")
    }
  }

  @Test(
    "A coordinator without its journal refuses to run, and continues when the journal is restored",
    arguments: Loss.allCases)
  func refusal(loss: Loss) async throws {
    try await withTopology(Self.three) { topology in
      let (file, before) = try await Self.tear(topology, loss)
      let whole = try file.contents()
      try Self.exchange(file, loss, for: before)
      try await Self.expectRefusal(of: topology, loss, file)
      // The coordinator refuses even if the participant that took the event is down.
      try await topology.stop("a")
      try await Self.expectRefusal(of: topology, loss, file)
      try await Self.expectPromised(topology)
      try await topology.start("a")
      try file.replace(with: whole)
      try await topology.start("trio")
      try await Self.expect(topology, ["a": 2, "b": 2, "c": 2])
      #expect(try await topology.meet("trio", mode: .await(.seconds(60))).isCommitted)
      try await Self.expect(topology, ["a": 3, "b": 3, "c": 3])
    }
  }

  @Test(
    "After a reset of coordinator and prepared nodes, a coordinator without its journal continues",
    arguments: Loss.allCases)
  func reset(loss: Loss) async throws {
    try await withTopology(Self.three) { topology in
      let (file, before) = try await Self.tear(topology, loss)
      try Self.exchange(file, loss, for: before)
      try await Self.expectRefusal(of: topology, loss, file)
      for name in ["b", "c"] { try await topology.stop(name) }
      let tool = CommandLineTool(beside: topology)
      let result = try await tool.run("reset", "trio", "b", "c")
      #expect(result.code == 0, "\(result)")
      for name in ["trio", "b", "c"] { try await topology.start(name) }
      // The participant that was not reset still names the former journal.
      #expect(try await topology.meet("trio", mode: .await(.seconds(60))).isCommitted)
      try await Self.expect(topology, ["a": 3, "b": 1, "c": 1])
      try await topology.restart("trio", "a")
      #expect(try await topology.meet("trio", mode: .await(.seconds(60))).isCommitted)
      try await Self.expect(topology, ["a": 4, "b": 2, "c": 2])
    }
  }

  @Test("A coordinator continues with a complete copy of its journal")
  func copy() async throws {
    try await withTopology(Parties.pair()) { topology in
      for _ in 1...2 { #expect(try await topology.meet().isCommitted) }
      try await topology.expectMet(2)
      try await topology.stop("pair")
      let file = try JournalFile(of: "pair", in: topology)
      try file.replace(with: try file.contents())
      try await topology.start("pair")
      #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted)
      try await topology.expectMet(3)
    }
  }

  @Test("A composite continues after a reset of its coordinator, its participants, or all nodes")
  func deliberate() async throws {
    try await withTopology(Parties.pair()) { topology in
      let tool = CommandLineTool(beside: topology)
      for (count, nodes) in [["pair"], ["left", "right"], ["pair", "left", "right"]].enumerated() {
        #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted, "\(count)")
        for name in nodes { try await topology.stop(name) }
        for name in nodes {
          let result = try await tool.run("reset", name)
          #expect(result.code == 0, "\(result)")
        }
        for name in nodes { try await topology.start(name) }
      }
      for _ in 1...2 { #expect(try await topology.meet(mode: .await(.seconds(60))).isCommitted) }
      try await topology.expectMet(2)
    }
  }
}
