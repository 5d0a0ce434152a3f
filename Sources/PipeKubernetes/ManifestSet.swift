import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire

/// The Kubernetes objects of a topology.
///
/// Equal files result in equal objects. Only ``secrets(_:)`` returns objects that contain secrets.
///
/// Source: docs/CLUSTERS.md, "Kubernetes".
package struct ManifestSet: Sendable {
  /// A file to store in the ConfigMap.
  package struct File: Sendable {
    /// The path of the file, as messages show it.
    package var path: String
    package var bytes: [UInt8]
    /// The values of the variables that the file uses. Values that equal the variable's default are
    /// not included.
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
  let clusterNames: ClusterNames
  /// The texts of the topology file and the deployment file, each with the file's name in the pod.
  let sourceFiles: [(name: String, text: String)]
  /// The values of the variables that the two files use. Values that equal the variable's default
  /// are not included.
  let variables: [String: String]
  /// The processes of the topology, without the orchestrator.
  package let processes: [ManifestProcess]

  /// The maximum size of a ConfigMap. Unit: bytes.
  package static let maximumFileByteCount = 1 << 20

  /// - Parameters:
  ///   - coordinatorPlans: The composites, grouped into conflict classes with one coordinator each.
  /// - Throws: ``ManifestError``
  package init(
    _ topology: Topology, coordinatorPlans: [ConflictClassPlan], file: File,
    by deployment: Deployment,
    deploymentFile: File
  ) throws(ManifestError) {
    guard deployment.engine == .kubernetes, let image = deployment.image else {
      throw .unsupportedEngine(deployment.engine)
    }
    self.topology = topology
    self.deployment = deployment
    self.image = image
    variables = try Self.variables(of: file, deploymentFile)
    clusterNames = ClusterNames(topology: topology.name)
    processes = ManifestProcess.all(of: topology, coordinatorPlans, in: deployment, clusterNames)
    // If the topology's name is 'deployment', its file gets another name, since the deployment file
    // already has the name 'deployment.yaml'.
    let name = topology.name == "deployment" ? "topology.yaml" : "\(topology.name).yaml"
    sourceFiles = [
      (name, try Self.text(of: file)), ("deployment.yaml", try Self.text(of: deploymentFile)),
    ]
    let size = sourceFiles.map { $0.name.utf8.count + $0.text.utf8.count }.reduce(0, +)
    guard size <= Self.maximumFileByteCount else { throw .tooLarge(size) }
  }

  private static func text(of file: File) throws(ManifestError) -> String {
    guard let text = String(validating: file.bytes, as: UTF8.self) else {
      throw .notUTF8Text(file.path)
    }
    return text
  }

  /// Returns the variables of both files, except variables that the pod sets itself. In the pod,
  /// both files are read with the same environment.
  private static func variables(
    of file: File, _ other: File
  ) throws(ManifestError) -> [String: String] {
    var allVariables: [String: String] = [:]
    for (name, value) in (file.variables.sorted { $0.key < $1.key })
      + other.variables.sorted(by: { $0.key < $1.key })
    where !podVariables.contains(name) {
      guard allVariables.updateValue(value, forKey: name).map({ $0 == value }) ?? true else {
        throw .conflictingVariable(name, file.path, other.path)
      }
    }
    return allVariables
  }

  /// Variables of the exporting host that must not be copied into the pods.
  private static let podVariables: Set = [
    "PATH", "HOME", "HOSTNAME", "PWD", "POD_IP", "PIPERUNTIME_ROOT",
  ]

  package var topologyName: String { topology.name }

  /// The programs with a path relative to the topology file, each with the path that the program
  /// must have in the image.
  package var programsWithRelativePaths: [(name: String, path: String)] {
    topology.programs.filter { $0.contains("/") && !$0.hasPrefix("/") }.map { name in
      var path = Self.topologyDirectory.split(separator: "/")
      for part in name.split(separator: "/") where part != "." {
        if part == ".." { _ = path.popLast() } else { path.append(part) }
      }
      return (name, "/" + path.joined(separator: "/"))
    }
  }

  /// All objects except Secrets, in the order in which they should be created.
  package var manifests: [ManifestTree] {
    let all = [orchestratorProcess] + processes
    return [networkPolicy, configMap] + all.map(service)
      + [statefulSet(ofOrchestrator: orchestratorProcess)] + processes.map { statefulSet($0) }
  }

  /// Returns the Secrets with the given keys, and a Secret with the values of variables, which may
  /// be secret.
  package func secrets(_ keys: ManifestKeys) -> [ManifestTree] {
    let own = orchestratorProcess
    let orchestrator = keys.orchestrator.map {
      secret(
        own.objectName, of: own,
        [
          "control.key": .block($0.controlKeyFileContents),
          "client.key": .block($0.clientKeyFileContents),
        ])
    }
    let values = variables.isEmpty ? nil : secret(variablesSecret, of: own, .texts(variables))
    let agents = processes.compactMap { process -> ManifestTree? in
      keys.agents[process.name].map {
        secret(
          process.objectName, of: process,
          [
            Self.agentKeyFileName: .block($0.keyFileContents),
            Self.agentPublicKeyFileName: .string($0.publicKey),
          ])
      }
    }
    return [orchestrator, values].compactMap(\.self) + agents
  }

  /// The names of the two entries in the Secret of a process. The entries are the key file of the
  /// process's agent, and the agent's public key, which the orchestrator must accept.
  static let agentKeyFileName = "agent.key"
  static let agentPublicKeyFileName = "agent.public"

  /// Returns manifests as YAML. Each manifest follows a `---` line.
  package static func yaml(_ manifests: [ManifestTree]) -> String {
    manifests.map { "---\n" + $0.yaml }.joined()
  }

  // MARK: Names of objects

  /// The namespace of all objects.
  package var namespace: String { deployment.namespace ?? clusterNames.topology }

  /// The endpoint at which processes and clients within the cluster reach the orchestrator.
  package var endpoint: String {
    "tcp://\(clusterNames.orchestrator).\(namespace).svc:\(deployment.port)"
  }

  var orchestratorProcess: ManifestProcess {
    ManifestProcess(
      name: ClusterNames.orchestratorProcess, component: .orchestrator,
      objectName: clusterNames.orchestrator, placement: nil, hasJournal: true)
  }

  /// The names of the Secret with the variables (`variablesSecret`) and of the ConfigMap
  /// (`filesConfigMap`). Both names contain a dot, so they differ from the names of processes.
  var variablesSecret: String { clusterNames.orchestrator + ".variables" }
  var filesConfigMap: String { clusterNames.orchestrator + ".files" }

  // MARK: Labels of objects

  /// The labels that all objects of this topology have. No other objects in the cluster have these
  /// labels.
  var commonLabels: [String: String] {
    [
      "app.kubernetes.io/part-of": clusterNames.topology,
      "app.kubernetes.io/managed-by": "piperuntime",
    ]
  }

  /// Returns the labels that select only the pod of a process.
  func selector(of process: ManifestProcess) -> [String: String] {
    commonLabels.merging(["app.kubernetes.io/instance": process.objectName]) { _, own in own }
  }

  func labels(of process: ManifestProcess) -> [String: String] {
    selector(of: process).merging([
      "app.kubernetes.io/name": String(
        process.objectName.dropFirst(clusterNames.topology.count + 1)),
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
      "data": .mapping(sourceFiles.map { (key: $0.name, value: .block($0.text)) }),
    ]
  }

  /// Returns the service that gives a process's pod a DNS name.
  ///
  /// The DNS name must resolve even before the pod is ready. The pod becomes ready only after the
  /// orchestrator has started the process in it.
  private func service(_ process: ManifestProcess) -> ManifestTree {
    let spec: ManifestTree = [
      "clusterIP": "None", "publishNotReadyAddresses": true,
      "selector": .texts(selector(of: process)),
    ]
    // Only the orchestrator has a fixed port. Nodes listen at ports that the system chooses, and
    // report these ports to the orchestrator.
    let ports: ManifestTree? =
      process.component == .orchestrator
      ? [["name": "control", "port": .number(deployment.port), "protocol": "TCP"]] : nil
    return [
      "apiVersion": "v1", "kind": "Service",
      "metadata": metadata(process.objectName, labels: labels(of: process)),
      "spec": spec.with(["ports": ports]),
    ]
  }

  /// The policy that allows the topology's pods to connect to each other and to resolve names.
  private var networkPolicy: ManifestTree {
    let ownPods: ManifestTree = [["podSelector": ["matchLabels": .texts(commonLabels)]]]
    return [
      "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
      "metadata": metadata(clusterNames.topology, labels: commonLabels),
      "spec": [
        "podSelector": ["matchLabels": .texts(commonLabels)],
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [["from": ownPods]],
        // DNS servers may be pods, or processes on the hosts, so any address is allowed.
        "egress": [
          ["to": ownPods],
          ["ports": [["protocol": "UDP", "port": 53], ["protocol": "TCP", "port": 53]]],
        ],
      ],
    ]
  }
}

/// The reason why no manifests can be written for a topology.
package enum ManifestError: Error, Hashable, Sendable {
  /// The deployment file selects an engine other than Kubernetes.
  case unsupportedEngine(Deployment.Engine)
  /// The two files together exceed the maximum size of a ConfigMap. The value is their size in
  /// bytes.
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
        + "limit \(ManifestSet.maximumFileByteCount) bytes; move large data into files of the image, and "
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
    package var keyFileContents: String
    /// The public key of the agent, which the orchestrator must accept.
    package var publicKey: String

    package init(file: String, key: String) {
      self.keyFileContents = file
      self.publicKey = key
    }
  }

  /// The keys of the orchestrator.
  package struct Orchestrator: Sendable {
    /// The contents of the key file with the orchestrator's key pair.
    package var controlKeyFileContents: String
    /// The contents of the key file for clients outside of the cluster.
    package var clientKeyFileContents: String

    package init(control: String, client: String) {
      self.controlKeyFileContents = control
      self.clientKeyFileContents = client
    }
  }

  /// The keys of the orchestrator; `nil` if the orchestrator already has its keys.
  package var orchestrator: Orchestrator?
  /// The keys of agents that need new keys, by the names of their processes.
  package var agents: [String: Agent]

  package init(orchestrator: Orchestrator?, agents: [String: Agent]) {
    self.orchestrator = orchestrator
    self.agents = agents
  }
}
