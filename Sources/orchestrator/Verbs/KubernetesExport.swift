import PipeManifests
import PipeRuntime
import PipeSupervision

/// `orchestrator export kubernetes`: reads and checks the two files, and writes what is made of them.
struct KubernetesExport {
  let file: String
  let deployment: String
  /// Whether the Secrets are written, in place of all else.
  let hasSecrets: Bool

  func run(_ console: Console) throws -> ExitCode {
    guard file != "-", deployment != "-" else {
      throw CommandError(
        "'export kubernetes' writes the two files as they are, and reads them more than once: name files",
        code: .usage)
    }
    var placement = DeploymentReport(.file(deployment))
    let loaded: LoadedTopology
    do {
      loaded = try LoadedTopology.load(.file(file), in: placement.examined)
      try placement.check(for: loaded.topology)
    } catch let errors as TopologyErrors {
      for diagnostic in errors.diagnostics + placement.diagnostics { console.note("\(diagnostic)") }
      return .usage
    }
    for diagnostic in loaded.warnings + placement.diagnostics { console.note("\(diagnostic)") }
    guard placement.isValid, let deployment = loaded.deployment else { return .usage }
    let set: ManifestSet
    do {
      set = try manifests(of: loaded, by: deployment)
    } catch let error as ManifestError {
      throw CommandError("\(error)", code: .usage)
    }
    for (program, path) in set.relativePrograms where !hasSecrets {
      console.note("note: program '\(program)' is looked for in the image at '\(path)'")
    }
    let written = hasSecrets ? set.secrets(try set.makeKeys()) : set.manifests
    try console.write(ManifestSet.yaml(written))
    return .success
  }

  private func manifests(of loaded: LoadedTopology, by deployment: Deployment) throws -> ManifestSet
  {
    let inputs = (TopologyInput.file(file), TopologyInput.file(self.deployment))
    return try ManifestSet(
      loaded.topology, classes: loaded.conflictClasses,
      file: .init(
        path: file, bytes: try inputs.0.bytes(),
        variables: try UsedVariables.of(inputs.0, as: .topology)),
      by: deployment,
      deploymentFile: .init(
        path: self.deployment, bytes: try inputs.1.bytes(),
        variables: try UsedVariables.of(inputs.1, as: .deployment)))
  }
}

extension ManifestSet {
  /// Makes a pair for each process, for the orchestrator, and for clients elsewhere.
  fileprivate func makeKeys() throws -> ManifestKeys {
    // Its directory is ours alone, and goes at once.
    let directory = try FileSystem.makeTemporaryDirectory("/tmp/piperuntime-keys-")
    defer { FileSystem.removeTree(directory) }
    let names = processes.map(\.name)
    try AgentKeys.make(of: names, for: topologyName, at: endpoint, in: directory)
    func text(_ file: String) throws -> String {
      let path = directory + "/" + file
      guard let text = FileSystem.text(of: path) else {
        throw SystemError("read", on: path, code: 0)
      }
      return text
    }
    return ManifestKeys(
      control: try text(AgentKeys.controlFile), client: try text(AgentKeys.clientFile),
      agents: try names.reduce(into: [:]) { agents, name in
        agents[name] = .init(
          file: try text(AgentKeys.ownFile(of: name)), key: try text(AgentKeys.agentFile(of: name)))
      })
  }
}
