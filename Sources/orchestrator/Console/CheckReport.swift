import PipeRuntime
import PipeSupervision

/// The result of `check` for one topology file.
struct CheckReport {
  let path: String
  let topology: Topology?
  let diagnostics: [Diagnostic]
  /// The warnings that the file declares as expected.
  let silencedWarnings: [Diagnostic]
  /// The findings in the journals; `nil` if the journals were not read.
  private(set) var journals: JournalTrial.Report?

  var isValid: Bool { topology != nil }

  /// Whether the programs can read all states and events in the journals; `true` if the journals
  /// were not read.
  var canReadJournals: Bool {
    journals.map { $0.failures.isEmpty && $0.unusableJournals.isEmpty } ?? true
  }

  /// - Parameters:
  ///   - deployment: The deployment file that is checked together with the topology. If `nil`, the
  ///     placement of the nodes is not checked.
  ///   - readsJournals: Whether the programs try to read the journals of the nodes.
  init(
    _ input: TopologyInput, isFileOnly: Bool, in deployment: DeploymentFile.Examination?,
    readsJournals: Bool = false
  ) {
    path = input.name
    do throws(TopologyErrors) {
      if isFileOnly {
        let examination = try TopologyReader.examine(input)
        let placementDiagnostics =
          deployment.map {
            PlacementChecker.check(examination.topology, source: examination.source, in: $0)
          } ?? []
        let socketDiagnostics = SocketPathChecker.check(
          examination.topology, source: examination.source)
        let allDiagnostics = (examination.diagnostics + placementDiagnostics + socketDiagnostics)
          .inFileOrder
        diagnostics = allDiagnostics.without(warnings: examination.topology.silence)
        silencedWarnings = allDiagnostics.silenced(by: examination.topology.silence)
        topology = diagnostics.hasErrors ? nil : examination.topology
      } else {
        let loaded = try LoadedTopology.load(input, in: deployment)
        let socketDiagnostics = SocketPathChecker.check(
          loaded.topology, source: loaded.source, classes: loaded.conflictClasses.map(\.name))
        diagnostics = (loaded.warnings + socketDiagnostics).inFileOrder
        silencedWarnings = loaded.silencedWarnings
        topology = diagnostics.hasErrors ? nil : loaded.topology
        if readsJournals, topology != nil { journals = Self.read(loaded) }
      }
    } catch {
      topology = nil
      diagnostics = error.diagnostics
      silencedWarnings = []
    }
  }

  /// Tries to read the journals of a topology with the nodes' programs, and returns the findings.
  private static func read(_ loaded: LoadedTopology) -> JournalTrial.Report {
    do {
      let directories = try RuntimeDirectories(topology: loaded.topology.name)
      return JournalTrial(of: try LaunchPlan(loaded, directories: directories)).report()
    } catch {
      var report = JournalTrial.Report()
      report.unusableJournals.append((loaded.topology.name, "\(error)"))
      return report
    }
  }

  /// The findings in the journals, as lines for users; empty if the journals were not read.
  var journalLines: [String] {
    guard let journals else { return [] }
    let values = journals.valueCount.counted("stored value")
    return journals.unusableJournals.map { "node '\($0.node)': \($0.reason)" }
      + journals.failures.map(\.text)
      + [
        canReadJournals
          ? "\(path): the programs can read the journals: \(values)"
          : "\(path): the programs cannot read all journals: "
            + "\((journals.failures.count + journals.unusableJournals.count).counted("failure")), \(values) read"
      ]
  }

  /// The result in one line, such as `topologies/elevator.yaml: ok: 4 nodes, 9 pipes`.
  var summaryLine: String {
    let requiredCounts = [
      (topology?.nodes.count ?? 0, "node"), (topology?.pipes.count ?? 0, "pipe"),
    ]
    let optionalCounts = [
      (topology?.composites.count ?? 0, "composite"), (topology?.monitors.count ?? 0, "monitor"),
      (diagnostics.count, "warning"),
    ]
    let parts = requiredCounts + optionalCounts.filter { $0.0 > 0 }
    return "\(path): ok: " + parts.map { $0.counted($1) }.joined(separator: ", ")
  }

  var record: JSONValue {
    guard case .object(var members) = fileRecord, let journals else { return fileRecord }
    members["journals"] = [
      "read": .integer(Int64(journals.valueCount)),
      "failures": .array(journals.failures.map(\.record)),
      "unusable": .array(
        journals.unusableJournals.map { ["node": .string($0.node), "reason": .string($0.reason)] }),
    ]
    return .object(members)
  }

  private var fileRecord: JSONValue {
    [
      "file": .string(path), "valid": .bool(isValid),
      "topology": topology.map { .string($0.name) } ?? .null,
      "nodes": topology.map { .integer(Int64($0.nodes.count)) } ?? .null,
      "pipes": topology.map { .integer(Int64($0.pipes.count)) } ?? .null,
      "composites": topology.map { .integer(Int64($0.composites.count)) } ?? .null,
      "monitors": topology.map { .integer(Int64($0.monitors.count)) } ?? .null,
      "diagnostics": .array(diagnostics.map(\.record)), "silenced": silencedWarnings.countsByCode,
    ]
  }
}

extension [Diagnostic] {
  /// Returns a line with the number of silenced warnings; `nil` if the file silences no warnings.
  ///
  /// For example: `elevator.yaml: 3 warnings are silenced by the file: 2 unconnected-port, 1
  /// plain-dollar`
  func silencedWarningsLine(of path: String) -> String? {
    guard !isEmpty else { return nil }
    let counts = countedCodes.map { "\($0.count) \($0.code)" }.joined(separator: ", ")
    return
      "\(path): \(count.counted("warning")) \(count == 1 ? "is" : "are") silenced by the file: \(counts)"
  }

  /// The number of diagnostics for each code.
  var countsByCode: JSONValue {
    .object(
      Dictionary(countedCodes.map { ($0.code, .integer(Int64($0.count))) }) { first, _ in first })
  }

  /// Each diagnostic code with the number of its diagnostics, in the order of the file.
  private var countedCodes: [(code: String, count: Int)] {
    var codes: [(code: String, count: Int)] = []
    for diagnostic in self {
      if let index = codes.firstIndex(where: { $0.code == diagnostic.code.rawValue }) {
        codes[index].count += 1
      } else {
        codes.append((diagnostic.code.rawValue, 1))
      }
    }
    return codes
  }
}

extension Diagnostic {
  /// The diagnostic as JSON. `line` and `column` are `null` if they are unknown.
  package var record: JSONValue {
    [
      "file": .string(file), "line": line > 0 ? .integer(Int64(line)) : .null,
      "column": column > 0 ? .integer(Int64(column)) : .null,
      "severity": .string(severity.rawValue), "code": .string(code.rawValue),
      "message": .string(message),
    ]
  }
}

/// The result of `check` for a deployment file.
struct DeploymentReport {
  let path: String
  /// The parts of the file that could be read; `nil` if nothing could be read.
  let examination: DeploymentFile.Examination?
  /// The diagnostics, except the warnings that the file declares as expected.
  var diagnostics: [Diagnostic] { allDiagnostics.without(warnings: codes) }
  /// The warnings that the file declares as expected.
  var silencedWarnings: [Diagnostic] { allDiagnostics.silenced(by: codes) }
  /// All diagnostics, including silenced ones.
  private var allDiagnostics: [Diagnostic]
  private var codes: [Diagnostic.Code] { examination?.deployment.silence ?? [] }

  var isValid: Bool { examination != nil && !diagnostics.hasErrors }

  /// Reads the file. Does not check the topologies that are deployed with the file.
  init(_ input: TopologyInput) {
    path = input.name
    do throws(TopologyErrors) {
      let examination = try DeploymentFile.examine(input)
      self.examination = examination
      allDiagnostics = examination.diagnostics
    } catch {
      examination = nil
      allDiagnostics = error.diagnostics
    }
  }

  /// Checks the file against this host and the topologies that are deployed with the file.
  mutating func check(for reports: [CheckReport]) throws(SystemError) {
    let topologies = reports.compactMap(\.topology)
    try check(for: topologies.count == reports.count ? topologies : nil)
  }

  /// Checks the file against this host and the topology that will be deployed.
  /// - Parameter topology: The topology; `nil` if it could not be read.
  mutating func check(for topology: Topology?) throws(SystemError) {
    try check(for: topology.map { [$0] })
  }

  private mutating func check(for topologies: [Topology]?) throws(SystemError) {
    guard let examination else { return }
    let newDiagnostics = DeploymentChecker.check(
      examination, for: topologies, interfaces: try InterfaceAddress.ofThisMachine())
    allDiagnostics = (allDiagnostics + newDiagnostics).inFileOrder
  }

  /// The result in one line, such as `lab.yaml: ok: engine local, 2 places`.
  var summaryLine: String {
    var parts = ["engine \(examination?.deployment.engine.rawValue ?? "")"]
    parts.append((examination?.deployment.places.count ?? 0).counted("place"))
    if !diagnostics.isEmpty { parts.append(diagnostics.count.counted("warning")) }
    return "\(path): ok: " + parts.joined(separator: ", ")
  }

  var record: JSONValue {
    let deployment = isValid ? examination?.deployment : nil
    return [
      "file": .string(path), "valid": .bool(isValid),
      "engine": deployment.map { .string($0.engine.rawValue) } ?? .null,
      "places": deployment.map { .integer(Int64($0.places.count)) } ?? .null,
      "diagnostics": .array(diagnostics.map(\.record)), "silenced": silencedWarnings.countsByCode,
    ]
  }
}
