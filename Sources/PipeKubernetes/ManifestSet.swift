import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire

/// The Kubernetes objects of a topology.
///
/// The same files always give the same objects. Only ``secrets(_:)`` contains secrets.
///
/// Source: docs/CLUSTERS.md, "Kubernetes".
package struct ManifestSet: Sendable {
  /// A file of the ConfigMap.
  package struct File: Sendable {
    /// The path for messages.
    package var path: String
    package var bytes: [UInt8]
    /// The values of the file's variables that differ from their default.
    package var variables: [String: String]

    package init(path: String, bytes: [UInt8], variables: [String: String] = [:]) {
      self.path = path
      self.bytes = bytes
      self.variables = variables
    }
  }

  let topology: Topology
  let deployment: Deployment
  let image: String
  let names: ClusterNames
  /// The texts of the two files, by their names in the pod.
  let files: [(name: String, text: String)]
  /// The values of the files' variables that differ from their default.
  let variables: [String: String]
  /// All processes except the orchestrator.
  package let processes: [ManifestProcess]

  /// The size limit of a ConfigMap. Unit: bytes.
  package static let fileLimit = 1 << 20

  /// - Parameters:
  ///   - classes: The composites in conflict classes, each with one coordinator.
  /// - Throws: ``ManifestError``
  package init(
    _ topology: Topology, classes: [ConflictClassPlan], file: File, by deployment: Deployment,
    deploymentFile: File
  ) throws(ManifestError) {
    guard deployment.engine == .kubernetes, let image = deployment.image else {
      throw .unsupportedEngine(deployment.engine)
    }
    self.topology = topology
    self.deployment = deployment
    self.image = image
    variables = try Self.variables(of: file, deploymentFile)
    names = ClusterNames(topology: topology.name)
    processes = ManifestProcess.all(of: topology, classes, in: deployment, names)
    // A topology may have the name 'deployment'.
    let name = topology.name == "deployment" ? "topology.yaml" : "\(topology.name).yaml"
    files = [
      (name, try Self.text(of: file)), ("deployment.yaml", try Self.text(of: deploymentFile)),
    ]
    let size = files.map { $0.name.utf8.count + $0.text.utf8.count }.reduce(0, +)
    guard size <= Self.fileLimit else { throw .tooLarge(size) }
  }

  private static func text(of file: File) throws(ManifestError) -> String {
    guard let text = String(validating: file.bytes, as: UTF8.self) else {
      throw .notUTF8Text(file.path)
    }
    return text
  }

  /// Returns the variables of both files for the one environment of the pod, without variables that
  /// the pod sets itself.
  private static func variables(
    of file: File, _ other: File
  ) throws(ManifestError) -> [String: String] {
    var all: [String: String] = [:]
    for (name, value) in (file.variables.sorted { $0.key < $1.key })
      + other.variables.sorted(by: { $0.key < $1.key })
    where !podVariables.contains(name) {
      guard all.updateValue(value, forKey: name).map({ $0 == value }) ?? true else {
        throw .conflictingVariable(name, file.path, other.path)
      }
    }
    return all
  }

  /// Variables of the exporting host that have other values in a pod.
  private static let podVariables: Set = [
    "PATH", "HOME", "HOSTNAME", "PWD", "POD_IP", "PIPERUNTIME_ROOT",
  ]

  package var topologyName: String { topology.name }

  /// The programs with paths relative to the topology file, and the paths where the image must have them.
  package var programsWithRelativePaths: [(name: String, path: String)] {
    topology.programs.filter { $0.contains("/") && !$0.hasPrefix("/") }.map { name in
      var path = Self.topologyDirectory.split(separator: "/")
      for part in name.split(separator: "/") where part != "." {
        if part == ".." { _ = path.popLast() } else { path.append(part) }
      }
      return (name, "/" + path.joined(separator: "/"))
    }
  }

  /// All objects except Secrets, in the preferred order of creation.
  package var manifests: [ManifestTree] {
    let all = [orchestratorProcess] + processes
    return [networkPolicy, configMap] + all.map(service)
      + [statefulSet(ofOrchestrator: orchestratorProcess)] + processes.map { statefulSet($0) }
  }

  /// Returns the Secrets for these keys, and for the values of variables, which may be secret, too.
  package func secrets(_ keys: ManifestKeys) -> [ManifestTree] {
    let own = orchestratorProcess
    let orchestrator = keys.orchestrator.map {
      secret(
        own.object, of: own, ["control.key": .block($0.control), "client.key": .block($0.client)])
    }
    let values = variables.isEmpty ? nil : secret(variablesSecret, of: own, .texts(variables))
    let agents = processes.compactMap { process -> ManifestTree? in
      keys.agents[process.name].map {
        secret(
          process.object, of: process,
          [Self.agentKey: .block($0.file), Self.publicKey: .string($0.key)])
      }
    }
    return [orchestrator, values].compactMap(\.self) + agents
  }

  /// The entries in the Secret of a process: its agent's key file, and the public key that the
  /// orchestrator admits.
  static let agentKey = "agent.key"
  static let publicKey = "agent.public"

  /// Returns the manifests as YAML, each after a `---` line.
  package static func yaml(_ manifests: [ManifestTree]) -> String {
    manifests.map { "---\n" + $0.yaml }.joined()
  }

  // MARK: Names

  /// The namespace of all objects.
  package var namespace: String { deployment.namespace ?? names.topology }

  /// The endpoint of the orchestrator for processes and clients within the cluster.
  package var endpoint: String {
    "tcp://\(names.orchestrator).\(namespace).svc:\(deployment.port)"
  }

  var orchestratorProcess: ManifestProcess {
    ManifestProcess(
      name: ClusterNames.orchestratorProcess, component: .orchestrator,
      object: names.orchestrator, place: nil, hasJournal: true)
  }

  /// The names contain a dot, so that they differ from the names of processes.
  var variablesSecret: String { names.orchestrator + ".variables" }
  var filesConfigMap: String { names.orchestrator + ".files" }

  // MARK: Labels

  /// The labels that all objects of the topology have, and no other objects.
  var commonLabels: [String: String] {
    [
      "app.kubernetes.io/part-of": names.topology, "app.kubernetes.io/managed-by": "piperuntime",
    ]
  }

  /// Returns the labels that select the pod of a process.
  func selector(of process: ManifestProcess) -> [String: String] {
    commonLabels.merging(["app.kubernetes.io/instance": process.object]) { _, own in own }
  }

  func labels(of process: ManifestProcess) -> [String: String] {
    selector(of: process).merging([
      "app.kubernetes.io/name": String(process.object.dropFirst(names.topology.count + 1)),
      "app.kubernetes.io/component": process.component.rawValue,
    ]) { _, own in own }
  }

  func metadata(_ name: String, labels: [String: String]) -> ManifestTree {
    [
      "name": .string(name), "namespace": .string(namespace), "labels": .texts(labels),
    ]
  }

  // MARK: Objects

  private func secret(
    _ name: String, of process: ManifestProcess, _ data: ManifestTree
  ) -> ManifestTree {
    [
      "apiVersion": "v1", "kind": "Secret", "metadata": metadata(name, labels: labels(of: process)),
      "type": "Opaque", "stringData": data,
    ]
  }

  private var configMap: ManifestTree {
    [
      "apiVersion": "v1", "kind": "ConfigMap",
      "metadata": metadata(filesConfigMap, labels: labels(of: orchestratorProcess)),
      "data": .mapping(files.map { (key: $0.name, value: .block($0.text)) }),
    ]
  }

  /// Returns the service that names a process's pod.
  ///
  /// The name resolves before the pod is ready, because the orchestrator starts the process that
  /// makes it ready.
  private func service(_ process: ManifestProcess) -> ManifestTree {
    let spec: ManifestTree = [
      "clusterIP": "None", "publishNotReadyAddresses": true,
      "selector": .texts(selector(of: process)),
    ]
    // Nodes listen at ports that the system chooses, and report them to the orchestrator.
    let ports: ManifestTree? =
      process.component == .orchestrator
      ? [["name": "control", "port": .number(deployment.port), "protocol": "TCP"]] : nil
    return [
      "apiVersion": "v1", "kind": "Service",
      "metadata": metadata(process.object, labels: labels(of: process)),
      "spec": spec.with(["ports": ports]),
    ]
  }

  /// The policy that lets the topology's pods connect to each other, and resolve names.
  private var networkPolicy: ManifestTree {
    let own: ManifestTree = [["podSelector": ["matchLabels": .texts(commonLabels)]]]
    return [
      "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
      "metadata": metadata(names.topology, labels: commonLabels),
      "spec": [
        "podSelector": ["matchLabels": .texts(commonLabels)],
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [["from": own]],
        // DNS servers may be pods, or a process on each host.
        "egress": [
          ["to": own],
          ["ports": [["protocol": "UDP", "port": 53], ["protocol": "TCP", "port": 53]]],
        ],
      ],
    ]
  }
}

/// The reason why a topology cannot be written as manifests.
package enum ManifestError: Error, Hashable, Sendable {
  /// The deployment has another engine.
  case unsupportedEngine(Deployment.Engine)
  /// The files do not fit into a ConfigMap. Unit: bytes.
  case tooLarge(Int)
  /// A variable has different values in the two files.
  case conflictingVariable(String, String, String)
  /// A file is not UTF-8 text.
  case notUTF8Text(String)
}

extension ManifestError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .unsupportedEngine(let engine):
      "manifests require engine 'kubernetes', and the deployment has engine '\(engine.rawValue)'; "
        + "write 'engine: kubernetes', 'image' and the hosts or labels of each place"
    case .tooLarge(let size):
      "the topology file and the deployment file are too large for a ConfigMap: \(size) bytes, "
        + "limit \(ManifestSet.fileLimit) bytes; move large data into files of the image, and "
        + "name these files in parameters"
    case .conflictingVariable(let name, let first, let second):
      "variable '\(name)' has different values in '\(first)' and '\(second)': the '.env' files "
        + "beside them differ, and a pod has one environment for both files; rename the variable "
        + "in one of the files"
    case .notUTF8Text(let file): "'\(file)' is not valid UTF-8, which a ConfigMap requires"
    }
  }
}

/// The keys of a topology in a cluster, as texts for its Secrets.
package struct ManifestKeys: Sendable {
  /// The keys of a process's agent.
  package struct Agent: Sendable {
    /// The contents of the agent's key file.
    package var file: String
    /// The public key, which the orchestrator admits.
    package var key: String

    package init(file: String, key: String) {
      self.file = file
      self.key = key
    }
  }

  /// The keys of the orchestrator.
  package struct Orchestrator: Sendable {
    /// The key file of the orchestrator's key pair.
    package var control: String
    /// The key file for clients outside the cluster.
    package var client: String

    package init(control: String, client: String) {
      self.control = control
      self.client = client
    }
  }

  /// The keys of the orchestrator; `nil` if it already has keys.
  package var orchestrator: Orchestrator?
  /// The new keys of agents, by the names of the processes.
  package var agents: [String: Agent]

  package init(orchestrator: Orchestrator?, agents: [String: Agent]) {
    self.orchestrator = orchestrator
    self.agents = agents
  }
}
