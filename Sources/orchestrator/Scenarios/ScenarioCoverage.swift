import PipeModelChecker
import PipeRuntime
import PipeSupervision

/// The transitions and synchronized events of topologies that scenarios have covered.
struct ScenarioCoverage {
  /// One topology with the transitions that its scenarios have covered.
  private struct Entry {
    let loaded: LoadedTopology
    var coveredItems: Set<CoverageItem> = []
    var scenarioCount = 0
  }

  /// The entries, by the path of the topology file.
  private var entries: [String: Entry] = [:]

  /// Adds what a scenario has covered.
  mutating func add(_ items: Set<CoverageItem>, of loaded: LoadedTopology, at path: String) {
    let path = FileSystem.resolvedPath(path) ?? FileSystem.absolutePath(path)
    entries[path, default: Entry(loaded: loaded)].coveredItems.formUnion(items)
    entries[path]?.scenarioCount += 1
  }

  /// Searches the reachable transitions of all topologies.
  /// - Parameter timeLimit: The maximum time of each search; `nil` for no limit.
  /// - Throws: `TopologyErrors` if a topology cannot be searched.
  func results(timeLimit: Duration?, console: Console) async throws -> [CoveredTopology] {
    var results: [CoveredTopology] = []
    for (path, entry) in entries.sorted(by: { $0.key < $1.key }) {
      var settings = ExplorationSettings()
      settings.timeLimit = timeLimit
      settings.includesCover = true
      let meter = ProgressMeter(console)
      let explorer = TopologyExplorer(
        entry.loaded, entry.loaded.topology.explore, settings)
      let report = try await explorer.explore(progress: { meter.show($0) })
      guard let cover = report.cover else {
        throw CommandError(
          "--coverage: the graph of the \(report.totals.stepCount) steps of \(path) does not fit "
            + "into memory; declare fewer values under 'explore: values'")
      }
      results.append(
        CoveredTopology(
          file: path, topology: entry.loaded.topology.name, verdict: report.verdict,
          scenarioCount: entry.scenarioCount, reachableItems: cover.items,
          takenItems: entry.coveredItems))
    }
    return results
  }
}

/// The coverage of one topology.
struct CoveredTopology {
  let file: String
  let topology: String
  let verdict: ExplorationVerdict
  let scenarioCount: Int
  /// The transitions and synchronized events that the search has found.
  let reachableItems: Set<CoverageItem>
  /// The transitions and synchronized events that the scenarios have taken.
  let takenItems: Set<CoverageItem>

  private var coveredItems: Set<CoverageItem> { reachableItems.intersection(takenItems) }
  private var missingItems: Set<CoverageItem> { reachableItems.subtracting(takenItems) }
  private var unexpectedItems: Set<CoverageItem> { takenItems.subtracting(reachableItems) }

  /// The maximum number of items of one kind that the text lists.
  private static let lineLimit = 20

  /// The coverage as text for users.
  var lines: [String] {
    var lines = ["\(topology): \(fraction(\.isTransition)) transitions are covered"]
    if reachableItems.contains(where: { !$0.isTransition }) {
      lines[0] =
        "\(topology): \(fraction(\.isTransition)) transitions and "
        + "\(fraction { !$0.isTransition }) synchronized events are covered"
    }
    lines += Self.list(missingItems, "not covered")
    lines += Self.list(unexpectedItems, "covered, but not found by the search")
    switch verdict.degree {
    case .exact: break
    case .sampled:
      lines.append(
        "  sampled: further transitions may be reachable with other values or assumptions; see "
          + "'check --explore'")
    case .incomplete:
      lines += verdict.remarks.filter { $0.effect == .incomplete }.map {
        "  incomplete: further transitions may be reachable: \($0.message)"
      }
    }
    return lines.map(\.printable)
  }

  private func fraction(_ isIncluded: (CoverageItem) -> Bool) -> String {
    "\(coveredItems.count(where: isIncluded)) of \(reachableItems.count(where: isIncluded))"
  }

  private static func list(_ items: Set<CoverageItem>, _ label: String) -> [String] {
    let texts = items.map(\.text).sorted()
    let hidden = texts.count - lineLimit
    return texts.prefix(lineLimit).map { "  \(label): \($0)" }
      + (hidden > 0 ? ["  \(label): \(hidden) more, listed in the file"] : [])
  }

  var record: JSONValue {
    func counts(_ isIncluded: (CoverageItem) -> Bool) -> JSONValue {
      [
        "covered": .integer(Int64(coveredItems.count(where: isIncluded))),
        "reachable": .integer(Int64(reachableItems.count(where: isIncluded))),
      ]
    }
    func list(_ items: Set<CoverageItem>) -> JSONValue {
      .array(items.sorted { $0.text < $1.text }.map(\.json))
    }
    return [
      "file": .string(file), "topology": .string(topology),
      "verdict": .string(verdict.degree.rawValue), "scenarios": .integer(Int64(scenarioCount)),
      "transitions": counts(\.isTransition), "synchronized": counts { !$0.isTransition },
      "covered": list(coveredItems), "missing": list(missingItems),
      "unexpected": list(unexpectedItems),
    ]
  }
}
