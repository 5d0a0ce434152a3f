import PipeRuntime

/// What `check` has found out about a deployment file.
struct DeploymentReport {
  let path: String
  /// What could be read of it; `nil` where that is nothing.
  let examined: DeploymentFile.Examined?
  /// Without the warnings that the file silences.
  var diagnostics: [Diagnostic] { found.without(warnings: codes) }
  /// The warnings that the file silences.
  var silenced: [Diagnostic] { found.silenced(by: codes) }
  /// All that was found.
  private var found: [Diagnostic]
  private var codes: [Diagnostic.Code] { examined?.deployment.silence ?? [] }

  var isValid: Bool { examined != nil && !diagnostics.hasErrors }

  /// Reads the file, whatever topologies are to run by it.
  init(_ input: TopologyInput) {
    path = input.name
    do throws(TopologyErrors) {
      let examined = try DeploymentFile.examine(input)
      self.examined = examined
      found = examined.diagnostics
    } catch {
      examined = nil
      found = error.diagnostics
    }
  }

  /// Checks it against this machine, and the topologies that are to run by it.
  mutating func check(for reports: [CheckReport]) throws(SystemError) {
    let topologies = reports.compactMap(\.topology)
    try check(for: topologies.count == reports.count ? topologies : nil)
  }

  /// Checks it against this machine, and the topology that is about to run by it.
  /// - Parameter topology: `nil` where that could not be read.
  mutating func check(for topology: Topology?) throws(SystemError) {
    try check(for: topology.map { [$0] })
  }

  private mutating func check(for topologies: [Topology]?) throws(SystemError) {
    guard let examined else { return }
    let checked = DeploymentChecker.check(
      examined, for: topologies, interfaces: try InterfaceAddress.ofThisMachine())
    found = (found + checked).inFileOrder
  }

  /// `lab.yaml: ok: engine local, 2 places`
  var line: String {
    var parts = ["engine \(examined?.deployment.engine.rawValue ?? "")"]
    parts.append((examined?.deployment.places.count ?? 0).counted("place"))
    if !diagnostics.isEmpty { parts.append(diagnostics.count.counted("warning")) }
    return "\(path): ok: " + parts.joined(separator: ", ")
  }

  var record: JSONValue {
    let deployment = isValid ? examined?.deployment : nil
    return [
      "file": .string(path), "valid": .bool(isValid),
      "engine": deployment.map { .string($0.engine.rawValue) } ?? .null,
      "places": deployment.map { .integer(Int64($0.places.count)) } ?? .null,
      "diagnostics": .array(diagnostics.map(\.record)), "silenced": silenced.countsByCode,
    ]
  }
}
