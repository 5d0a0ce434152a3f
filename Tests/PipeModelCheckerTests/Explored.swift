import Glibc
import PipeModelChecker
import PipeRuntime
import PipeSupervision
import Testing

/// Topologies that are explored through their programs.
enum ExplorationFixture {
  /// Explores a topology with this text, which is written to a file.
  static func topology(
    _ text: String, _ section: ExploreSection = ExploreSection(fromOutside: [:]),
    answerTimeout: Duration = .seconds(10), _ change: (inout ExplorationSettings) -> Void = { _ in }
  ) async throws -> ExplorationReport {
    let path = "/tmp/explored-\(getpid())-\(UInt64.random(in: 0...UInt64.max)).yaml"
    defer { unlink(path) }
    let file = try #require(fopen(path, "w"))
    fputs("topology: explored\nprogram: TestNodes\n" + text, file)
    fclose(file)
    return try await self.file(path, section, answerTimeout: answerTimeout, change)
  }

  /// Explores the topology of a file.
  static func file(
    _ path: String, _ section: ExploreSection?, answerTimeout: Duration = .seconds(10),
    _ change: (inout ExplorationSettings) -> Void = { _ in }
  ) async throws -> ExplorationReport {
    var settings = ExplorationSettings()
    settings.threadCount = 1
    settings.isReduced = false
    change(&settings)
    let loaded = try LoadedTopology.load(.file(path))
    return try await TopologyExplorer(loaded, section, settings, answerTimeout: answerTimeout)
      .explore()
  }

  /// Returns the line of an automaton as a node of a file.
  static func automaton(_ name: String, _ start: String, _ steps: [String]) -> String {
    let list = steps.map { "\"\($0)\"" }.joined(separator: ", ")
    return "  \(name): { machine: Automaton, "
      + "parameters: { start: \"\(start)\", steps: [\(list)] } }\n"
  }

  /// Returns a section with these events from outside, without fields.
  static func outside(_ events: [String: [String]]) -> ExploreSection {
    ExploreSection(fromOutside: events.mapValues { $0.map { EventPattern($0) } })
  }
}

extension ExplorationReport {
  var codes: Set<ExplorationFinding.Code> { Set(findings.map(\.code)) }

  func findings(_ code: ExplorationFinding.Code) -> [ExplorationFinding] {
    findings.filter { $0.code == code }
  }
}
