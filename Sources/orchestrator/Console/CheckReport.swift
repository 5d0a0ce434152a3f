import PipeRuntime
import PipeSupervision

/// The findings of `check` about one topology file.
struct CheckReport {
  let path: String
  let topology: Topology?
  let diagnostics: [Diagnostic]
  /// The warnings that the file silences.
  let silenced: [Diagnostic]

  var isValid: Bool { topology != nil }

  /// - Parameter deployment: The deployment of the nodes; `nil` to skip the check of host
  ///   placements.
  init(_ input: TopologyInput, isFileOnly: Bool, in deployment: DeploymentFile.Examination?) {
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
        silenced = allDiagnostics.silenced(by: examination.topology.silence)
        topology = diagnostics.hasErrors ? nil : examination.topology
      } else {
        let loaded = try LoadedTopology.load(input, in: deployment)
        let socketDiagnostics = SocketPathChecker.check(
          loaded.topology, source: loaded.source, classes: loaded.conflictClasses.map(\.name))
        diagnostics = (loaded.warnings + socketDiagnostics).inFileOrder
        silenced = loaded.silenced
        topology = diagnostics.hasErrors ? nil : loaded.topology
      }
    } catch {
      topology = nil
      diagnostics = error.diagnostics
      silenced = []
    }
  }

  /// `topologies/elevator.yaml: ok: 4 nodes, 9 pipes`
  var line: String {
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
    [
      "file": .string(path), "valid": .bool(isValid),
      "topology": topology.map { .string($0.name) } ?? .null,
      "nodes": topology.map { .integer(Int64($0.nodes.count)) } ?? .null,
      "pipes": topology.map { .integer(Int64($0.pipes.count)) } ?? .null,
      "composites": topology.map { .integer(Int64($0.composites.count)) } ?? .null,
      "monitors": topology.map { .integer(Int64($0.monitors.count)) } ?? .null,
      "diagnostics": .array(diagnostics.map(\.record)), "silenced": silenced.countsByCode,
    ]
  }
}

extension [Diagnostic] {
  /// `elevator.yaml: 3 warnings are silenced by the file: 2 unconnected-port, 1 plain-dollar`;
  /// `nil` without warnings.
  func silencedWarningsLine(of path: String) -> String? {
    guard !isEmpty else { return nil }
    let counts = codes.map { "\($0.count) \($0.code)" }.joined(separator: ", ")
    return
      "\(path): \(count.counted("warning")) \(count == 1 ? "is" : "are") silenced by the file: \(counts)"
  }

  /// The number of diagnostics for each code.
  var countsByCode: JSONValue {
    .object(Dictionary(codes.map { ($0.code, .integer(Int64($0.count))) }) { first, _ in first })
  }

  /// Each code with its number of diagnostics, in the order of the file.
  private var codes: [(code: String, count: Int)] {
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
  /// The JSON form; `line` and `column` are `null` if they are not known.
  package var record: JSONValue {
    [
      "file": .string(file), "line": line > 0 ? .integer(Int64(line)) : .null,
      "column": column > 0 ? .integer(Int64(column)) : .null,
      "severity": .string(severity.rawValue), "code": .string(code.rawValue),
      "message": .string(message),
    ]
  }
}

/// The findings of `check` about a deployment file.
struct DeploymentReport {
  let path: String
  /// The readable part of the file; `nil` if nothing could be read.
  let examination: DeploymentFile.Examination?
  /// The diagnostics without the warnings that the file silences.
  var diagnostics: [Diagnostic] { allDiagnostics.without(warnings: codes) }
  /// The warnings that the file silences.
  var silenced: [Diagnostic] { allDiagnostics.silenced(by: codes) }
  /// All diagnostics, including silenced ones.
  private var allDiagnostics: [Diagnostic]
  private var codes: [Diagnostic.Code] { examination?.deployment.silence ?? [] }

  var isValid: Bool { examination != nil && !diagnostics.hasErrors }

  /// Reads the file, without regard to the topologies that it deploys.
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

  /// Checks the file against this machine and the topologies that it deploys.
  mutating func check(for reports: [CheckReport]) throws(SystemError) {
    let topologies = reports.compactMap(\.topology)
    try check(for: topologies.count == reports.count ? topologies : nil)
  }

  /// Checks the file against this machine and the topology that it is about to deploy.
  /// - Parameter topology: `nil` if the topology could not be read.
  mutating func check(for topology: Topology?) throws(SystemError) {
    try check(for: topology.map { [$0] })
  }

  private mutating func check(for topologies: [Topology]?) throws(SystemError) {
    guard let examination else { return }
    let newDiagnostics = DeploymentChecker.check(
      examination, for: topologies, interfaces: try InterfaceAddress.ofThisMachine())
    allDiagnostics = (allDiagnostics + newDiagnostics).inFileOrder
  }

  /// `lab.yaml: ok: engine local, 2 places`
  var line: String {
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
      "diagnostics": .array(diagnostics.map(\.record)), "silenced": silenced.countsByCode,
    ]
  }
}
