import PipeSystem
import PipeTopology
import PipeWire

extension LoadedTopology {
  /// Reads and checks what a topology is to go over to.
  /// - Parameters:
  ///   - name: Another name than the file's.
  ///   - deployment: The path of the file by which it runs then; `nil` where all is on one host.
  /// - Throws: `TopologyErrors`, of either file.
  static func load(
    for request: ChangeRequest, name: String?, by deployment: String?
  ) throws(TopologyErrors) -> LoadedTopology {
    guard let deployment else {
      return try load(.file(request.file), name: name, variables: request.variables)
    }
    let examined = try DeploymentFile.examine(.file(deployment), environment: request.variables)
    var loaded = try load(
      .file(request.file), name: name, variables: request.variables, in: examined)
    var found = examined.diagnostics
    // Where the system does not tell its addresses, a node that cannot be bound does.
    if let interfaces = try? InterfaceAddress.ofThisMachine() {
      found += DeploymentChecker.check(examined, for: [loaded.topology], interfaces: interfaces)
    }
    if found.hasErrors { throw TopologyErrors(found) }
    loaded.warnings += found.without(warnings: examined.deployment.silence)
    return loaded
  }
}
