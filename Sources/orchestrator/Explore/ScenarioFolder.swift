import Glibc
import PipeRuntime

/// The directory that counterexamples are written to, a scenario file each.
struct ScenarioFolder {
  let path: String

  /// Makes the directory where there is none.
  init(_ path: String) throws(CommandError) {
    if !FileSystem.isDirectory(path), mkdir(path, 0o777) != 0 {
      throw CommandError(
        "--out \(path): \(SystemError.text(of: errno)); name a directory that there is, or whose "
          + "parent there is", code: .usage)
    }
    self.path = path
  }

  /// Writes the counterexample of each finding that has one, and notes where.
  func write(_ explored: inout ExploredFile) throws {
    var counts: [String: Int] = [:]
    let topology = FileSystem.resolved(explored.file) ?? FileSystem.absolute(explored.file)
    let folder = FileSystem.resolved(path) ?? FileSystem.absolute(path)
    for index in explored.findings.indices {
      let finding = explored.findings[index].finding
      guard var scenario = finding.scenario else { continue }
      counts[finding.code.rawValue, default: 0] += 1
      scenario.name =
        "\(explored.topology)-\(finding.code.rawValue)-\(counts[finding.code.rawValue]!)"
      if scenario.name.utf8.count > 41 {
        scenario.name = "\(finding.code.rawValue)-\(counts[finding.code.rawValue]!)"
      }
      scenario.topology = NearPath.path(to: topology, from: folder)
      scenario.shows = scenario.shows ?? finding.code.rawValue
      let file = "\(path.hasSuffix("/") ? path : path + "/")\(scenario.name).yaml"
      try FileSystem.replace(file, with: scenario.yaml.utf8)
      explored.findings[index].scenarioPath = file
    }
  }
}
