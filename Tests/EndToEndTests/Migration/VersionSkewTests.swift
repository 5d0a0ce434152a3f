import Glibc
import PipeRuntime
import PipeRuntimeTestKit
import TestNodes
import TestTraits
import Testing

/// A build of the orchestrator and the node programs.
enum ProgramVersion: String, CaseIterable, CustomTestStringConvertible {
  case former, present

  /// The directory with the former version, which `tools/test-skew` builds; `nil` if there is none.
  static let formerDirectory = getenv("PIPERUNTIME_FORMER").map { String(cString: $0) }

  var directory: String {
    self == .present ? CommandLineTool.products : Self.formerDirectory ?? ""
  }

  var testDescription: String { rawValue }
}

/// A topology whose orchestrator and programs belong to either version. Numbers flow from one node to
/// another one, and each number causes a synchronized event of two nodes.
private struct MixedWard {
  let topology: DetachedTopology

  private static let restart = "restart: { max: 20, backoff: { initial: 10ms, max: 100ms } }"
  private static let yaml = """
    topology: ward
    program: ./back
    nodes:
      source: { machine: Source, program: ./front, \(restart) }
      sink: { machine: Sink, program: ./back, parameters: { work: 1000 }, \(restart) }
      left: { machine: Party, program: ./front, \(restart) }
      right: { machine: Party, program: ./back, \(restart) }
    composites:
      pair: { components: [left, right], synchronize: [meet] }
    pipes:
      - { from: source.out, to: sink.in, name: numbers }
      - { from: sink, when: counting, to: pair, send: meet, name: meetings }
    """

  /// Starts the topology.
  /// - Parameters:
  ///   - front: The version of the program of `source` and `left`.
  ///   - back: The version of the program of `sink` and `right`.
  static func with(
    orchestrator: ProgramVersion, front: ProgramVersion, back: ProgramVersion,
    _ body: (MixedWard) async throws -> Void
  ) async throws {
    try await CommandLineTool.launching { tool in
      var tool = tool
      tool.crashingNodes = ["source", "sink", "left", "right", "pair"]
      let ward = MixedWard(
        topology: try DetachedTopology(tool: tool, name: "ward", yaml: yaml))
      try ward.install(front: front, back: back)
      try await ward.up(by: orchestrator)
      try await body(ward)
      try await ward.topology.run("down")
    }
  }

  /// Writes both programs.
  func install(front: ProgramVersion, back: ProgramVersion) throws {
    for (program, version) in [("front", front), ("back", back)] {
      try topology.tool.directory.write(
        """
        #!/bin/sh
        VERSION=\(version) exec "\(version.directory)/TestNodes" "$@"

        """, to: program, mode: 0o700)
    }
  }

  /// Starts the topology by the orchestrator of a version.
  func up(by version: ProgramVersion) async throws {
    let program = try topology.tool.start(
      program: version.directory + "/orchestrator",
      ["up", "--wait-timeout", "10m", "--wait", "ward.yaml"])
    let up = try await topology.tool.result(of: program, within: .seconds(60))
    let logs = try topology.logs()
    try #require(up.code == 0, "\(up)\n\(logs)")
  }

  /// Waits until a few more numbers have arrived, so that work is in progress everywhere.
  func flow() async throws { try await topology.waitUntilNumbersArrive(20) }

  /// Kills each node once, and waits for its next process.
  func killNodes() async throws {
    for node in ["source", "sink", "left", "pair", "right"] {
      let before = try await topology.pids()[node]
      try await topology.run("kill", node)
      try await topology.await("'\(node)' runs again") {
        $0[node: node]?.isRunning == true && $0[node: node]?.pid != before
      }
      try await flow()
    }
  }

  /// Ends the flow, and checks that each event was applied once.
  func finish() async throws {
    try await topology.waitUntilAllMet(try await topology.endNumbers())
  }

  /// Returns the version of the program that each node runs.
  func versions() async throws -> Set<String> {
    var versions: Set<String> = []
    for pid in try await topology.pids().values {
      let environment = FileSystem.text(of: "/proc/\(pid)/environ") ?? ""
      for version in ProgramVersion.allCases where environment.contains("VERSION=\(version)\0") {
        versions.insert(version.rawValue)
      }
    }
    return versions
  }
}

@Suite(
  "Programs of two neighboring versions", .timed,
  .enabled(
    if: ProgramVersion.formerDirectory != nil, "tools/test-skew builds the former version"))
struct VersionSkewTests {
  /// The versions of the orchestrator, of the senders' program, and of the receivers' program.
  private static let mixtures: [(ProgramVersion, ProgramVersion, ProgramVersion)] = [
    (.present, .former, .former), (.present, .former, .present), (.present, .present, .former),
    (.former, .present, .present), (.former, .former, .present),
  ]

  @Test(
    "Each event is applied once if nodes are killed, whichever version a program has",
    arguments: mixtures)
  func kills(
    orchestrator: ProgramVersion, front: ProgramVersion, back: ProgramVersion
  ) async throws {
    try await MixedWard.with(orchestrator: orchestrator, front: front, back: back) { ward in
      try await ward.topology.startNumbers()
      try await ward.flow()
      try await ward.killNodes()
      try await ward.finish()
    }
  }

  @Test("'apply' upgrades the nodes of the former version while events flow")
  func upgrade() async throws {
    try await MixedWard.with(orchestrator: .present, front: .former, back: .former) { ward in
      try await ward.topology.startNumbers()
      try await ward.flow()
      try ward.install(front: .present, back: .present)
      try await ward.topology.run("apply", "ward.yaml")
      #expect(try await ward.versions() == ["present"])
      try await ward.flow()
      try await ward.finish()
    }
  }

  @Test("The orchestrator adopts the nodes of a killed orchestrator of the former version")
  func adoption() async throws {
    try await MixedWard.with(orchestrator: .former, front: .former, back: .former) { ward in
      try await ward.topology.startNumbers()
      try await ward.flow()
      let nodes = try await ward.topology.pids()
      try await ward.topology.killOrchestrator()
      try await ward.up(by: .present)
      #expect(try await ward.topology.pids() == nodes)
      try await ward.flow()
      try await ward.killNodes()
      try await ward.finish()
    }
  }

  @Test(
    "A stopped topology continues from its journals in the other version",
    arguments: ProgramVersion.allCases)
  func journals(first: ProgramVersion) async throws {
    let next: ProgramVersion = first == .former ? .present : .former
    try await MixedWard.with(orchestrator: first, front: first, back: first) { ward in
      try await ward.topology.startNumbers()
      try await ward.flow()
      try await ward.topology.run("down")
      try ward.install(front: next, back: next)
      try await ward.up(by: next)
      try await ward.flow()
      try await ward.finish()
    }
  }
}
