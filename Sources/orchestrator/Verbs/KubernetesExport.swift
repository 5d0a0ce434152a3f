import PipeKubernetes
import PipeRuntime
import PipeSupervision

/// Implements `orchestrator export kubernetes`: reads and checks the topology file and the
/// deployment file, and writes manifests.
struct KubernetesExport {
  let file: String
  let deployment: String
  let part: Part

  /// The part of the manifests that is written.
  enum Part {
    /// All manifests except Secrets.
    case manifests
    /// The Secrets, with new keys for all processes.
    case secrets
    /// The Secrets of the nodes with the given names. `key` is the path of the running
    /// orchestrator's `client.key`.
    case secretsOf([String], key: String)

    /// - Throws: ``CommandError`` if the options cannot be used together.
    init(hasSecrets: Bool, key: String?, nodes: [String]) throws {
      switch (hasSecrets, key) {
      case (true, let key?): self = .secretsOf(nodes, key: key)
      case (true, nil) where nodes.isEmpty: self = .secrets
      case (false, nil) where nodes.isEmpty: self = .manifests
      case (_, nil):
        throw CommandError(
          "NODE requires --secrets and --key FILE, the 'client.key' of the topology in the "
            + "cluster; manifests are always written for all nodes", code: .usage)
      case (false, _):
        throw CommandError("--key requires --secrets; manifests contain no keys", code: .usage)
      }
    }
  }

  func run(_ console: Console) throws -> ExitCode {
    guard file != "-", deployment != "-" else {
      throw CommandError(
        "'export kubernetes' cannot read standard input; name the topology file and the "
          + "deployment file",
        code: .usage)
    }
    var deploymentReport = DeploymentReport(.file(deployment))
    let loaded: LoadedTopology
    do {
      loaded = try LoadedTopology.load(.file(file), in: deploymentReport.examination)
      try deploymentReport.check(for: loaded.topology)
    } catch let errors as TopologyErrors {
      for diagnostic in errors.diagnostics + deploymentReport.diagnostics {
        console.note("\(diagnostic)")
      }
      return .usage
    }
    for diagnostic in loaded.warnings + deploymentReport.diagnostics {
      console.note("\(diagnostic)")
    }
    guard deploymentReport.isValid, let deployment = loaded.deployment else { return .usage }
    let set: ManifestSet
    do {
      set = try manifests(of: loaded, by: deployment)
    } catch let error as ManifestError {
      throw CommandError("\(error)", code: .usage)
    }
    try console.write(ManifestSet.yaml(try selectedManifests(of: set, console)))
    return .success
  }

  private func selectedManifests(of set: ManifestSet, _ console: Console) throws -> [ManifestTree] {
    switch part {
    case .manifests:
      for (program, path) in set.programsWithRelativePaths {
        console.note("note: the image must contain program '\(program)' at '\(path)'")
      }
      return set.manifests
    case .secrets:
      return set.secrets(try set.makeKeys())
    case .secretsOf(let nodes, let key):
      let control = try Self.control(of: set, in: key)
      let known = set.processes.map(\.name)
      for node in nodes where !known.contains(node) {
        throw CommandError(
          "'\(file)' has no node or coordinator '\(node)' with a pod of its own"
            + Suggestion.among(known, like: node, verb: "there are"), code: .usage)
      }
      return set.secrets(try set.makeKeys(of: nodes, for: control))
    }
  }

  /// Returns the address at which processes reach the orchestrator, and the orchestrator's public
  /// key. The public key is read from a key file.
  private static func control(of set: ManifestSet, in path: String) throws -> ControlAddress {
    do {
      var control = try KeyFile.readWithControl(path).control
      guard control.topology == set.topologyName else {
        throw CommandError(
          "'\(path)' is a key of topology '\(control.topology)', not of '\(set.topologyName)'",
          code: .usage)
      }
      // The address in the key file may be an address for clients outside the cluster, so it is
      // replaced.
      control.endpoint = set.endpoint
      return control
    } catch let error as KeyFileError {
      throw CommandError("\(error)", code: .usage)
    }
  }

  private func manifests(of loaded: LoadedTopology, by deployment: Deployment) throws -> ManifestSet
  {
    let inputs = (TopologyInput.file(file), TopologyInput.file(self.deployment))
    return try ManifestSet(
      loaded.topology, coordinatorPlans: loaded.conflictClasses,
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
  /// Creates a key pair for each process, for the orchestrator, and for clients outside the
  /// cluster.
  fileprivate func makeKeys() throws -> ManifestKeys {
    try withKeys { directory in
      let names = processes.map(\.name)
      try AgentKeys.make(of: names, for: topologyName, at: endpoint, in: directory)
      return ManifestKeys(
        orchestrator: .init(
          control: try Self.text(AgentKeys.controlFileName, in: directory),
          client: try Self.text(AgentKeys.clientFileName, in: directory)),
        agents: try Self.agents(names, in: directory))
    }
  }

  /// Creates a key pair for each of the named processes.
  fileprivate func makeKeys(of names: [String], for control: ControlAddress) throws -> ManifestKeys
  {
    try withKeys { directory in
      try AgentKeys.make(of: names, for: control, in: directory)
      return ManifestKeys(orchestrator: nil, agents: try Self.agents(names, in: directory))
    }
  }

  /// Creates keys in a private temporary directory, and then removes the directory.
  private func withKeys(_ make: (String) throws -> ManifestKeys) throws -> ManifestKeys {
    let directory = try FileSystem.makeTemporaryDirectory("/tmp/piperuntime-keys-")
    defer { FileSystem.removeTree(directory) }
    return try make(directory)
  }

  private static func agents(
    _ names: [String], in directory: String
  ) throws -> [String: ManifestKeys.Agent] {
    try names.reduce(into: [:]) { agents, name in
      agents[name] = .init(
        file: try text(AgentKeys.keyPairFile(of: name), in: directory),
        key: try text(AgentKeys.agentFile(of: name), in: directory))
    }
  }

  private static func text(_ file: String, in directory: String) throws -> String {
    let path = directory + "/" + file
    guard let text = FileSystem.text(of: path) else { throw SystemError("read", on: path, code: 0) }
    return text
  }
}
