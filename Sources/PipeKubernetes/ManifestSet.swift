import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire

/// A topology as objects of Kubernetes'. It is the same each time for the same files, and has no secret but where keys
/// are given.
///
/// Source: docs/CLUSTERS.md, "Kubernetes".
package struct ManifestSet: Sendable {
  /// A file of the ConfigMap.
  package struct File: Sendable {
    /// The path by which messages call it.
    package var path: String
    package var bytes: [UInt8]
    /// What its variables stand for, where that is not their default.
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
  /// The two files as texts, by their names in the pod.
  let files: [(name: String, text: String)]
  /// What the files' variables stand for, where that is not their default.
  let variables: [String: String]
  /// All but the orchestrator.
  package let processes: [ManifestProcess]

  /// How much a ConfigMap holds. Unit: bytes.
  package static let fileLimit = 1 << 20

  /// - Parameters:
  ///   - classes: The composites, in classes of which each has one coordinator.
  /// - Throws: ``ManifestError``
  package init(
    _ topology: Topology, classes: [ConflictClassPlan], file: File, by deployment: Deployment,
    deploymentFile: File
  ) throws(ManifestError) {
    guard deployment.engine == .kubernetes, let image = deployment.image else {
      throw .otherEngine(deployment.engine)
    }
    self.topology = topology
    self.deployment = deployment
    self.image = image
    variables = try Self.variables(of: file, deploymentFile)
    names = ClusterNames(topology: topology.name)
    processes = ManifestProcess.all(of: topology, classes, in: deployment, names)
    // A topology may be called 'deployment'.
    let name = topology.name == "deployment" ? "topology.yaml" : "\(topology.name).yaml"
    files = [
      (name, try Self.text(of: file)), ("deployment.yaml", try Self.text(of: deploymentFile)),
    ]
    let size = files.map { $0.name.utf8.count + $0.text.utf8.count }.reduce(0, +)
    guard size <= Self.fileLimit else { throw .tooLarge(size) }
  }

  private static func text(of file: File) throws(ManifestError) -> String {
    guard let text = String(validating: file.bytes, as: UTF8.self) else {
      throw .notText(file.path)
    }
    return text
  }

  /// A pod has one environment for both files, and some variables of its own.
  private static func variables(
    of file: File, _ other: File
  ) throws(ManifestError) -> [String: String] {
    var all: [String: String] = [:]
    for (name, value) in (file.variables.sorted { $0.key < $1.key })
      + other.variables.sorted(by: { $0.key < $1.key })
    where !podVariables.contains(name) {
      guard all.updateValue(value, forKey: name).map({ $0 == value }) ?? true else {
        throw .twoValues(name, file.path, other.path)
      }
    }
    return all
  }

  /// What an exporter's variables say nothing of.
  private static let podVariables: Set = [
    "PATH", "HOME", "HOSTNAME", "PWD", "POD_IP", "PIPERUNTIME_ROOT",
  ]

  package var topologyName: String { topology.name }

  /// The programs that are named by paths from the topology's file, and where they are to be in the image.
  package var relativePrograms: [(name: String, path: String)] {
    topology.programs.filter { $0.contains("/") && !$0.hasPrefix("/") }.map { name in
      var path = Self.topologyDirectory.split(separator: "/")
      for part in name.split(separator: "/") where part != "." {
        if part == ".." { _ = path.popLast() } else { path.append(part) }
      }
      return (name, "/" + path.joined(separator: "/"))
    }
  }

  /// All objects but Secrets, in the order in which they are best made.
  package var manifests: [ManifestTree] {
    let all = [orchestratorProcess] + processes
    return [networkPolicy, configMap] + all.map(service)
      + [statefulSet(ofOrchestrator: orchestratorProcess)] + processes.map { statefulSet($0) }
  }

  /// The Secrets with these keys, and with what variables stand for: that may be secret, too.
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

  /// In the Secret of a process: its agent's key file, and what the orchestrator lets it in by.
  static let agentKey = "agent.key"
  static let publicKey = "agent.public"

  /// Their YAML text, each after a line `---`.
  package static func yaml(_ manifests: [ManifestTree]) -> String {
    manifests.map { "---\n" + $0.yaml }.joined()
  }

  // MARK: Names

  /// Where all objects are.
  package var namespace: String { deployment.namespace ?? names.topology }

  /// Where processes and clients within the cluster reach the orchestrator.
  package var endpoint: String {
    "tcp://\(names.orchestrator).\(namespace).svc:\(deployment.port)"
  }

  var orchestratorProcess: ManifestProcess {
    ManifestProcess(
      name: ClusterNames.orchestratorProcess, component: .orchestrator,
      object: names.orchestrator, place: nil, hasJournal: true)
  }

  /// No process has a dot in its name.
  var variablesSecret: String { names.orchestrator + ".variables" }
  var filesMap: String { names.orchestrator + ".files" }

  // MARK: Labels

  /// What all objects of the topology have, and no others.
  var commonLabels: [String: String] {
    [
      "app.kubernetes.io/part-of": names.topology, "app.kubernetes.io/managed-by": "piperuntime",
    ]
  }

  /// What the pod of a process is found by.
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
      "metadata": metadata(filesMap, labels: labels(of: orchestratorProcess)),
      "data": .mapping(files.map { (key: $0.name, value: .block($0.text)) }),
    ]
  }

  /// A name of its pod's, which is there before the pod is ready: the orchestrator starts what makes it so.
  private func service(_ process: ManifestProcess) -> ManifestTree {
    let spec: ManifestTree = [
      "clusterIP": "None", "publishNotReadyAddresses": true,
      "selector": .texts(selector(of: process)),
    ]
    // Nodes listen at ports that the system chooses, and tell them to the orchestrator.
    let ports: ManifestTree? =
      process.component == .orchestrator
      ? [["name": "control", "port": .number(deployment.port), "protocol": "TCP"]] : nil
    return [
      "apiVersion": "v1", "kind": "Service",
      "metadata": metadata(process.object, labels: labels(of: process)),
      "spec": spec.with(["ports": ports]),
    ]
  }

  /// The topology's pods talk with each other, and ask for names.
  private var networkPolicy: ManifestTree {
    let own: ManifestTree = [["podSelector": ["matchLabels": .texts(commonLabels)]]]
    return [
      "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
      "metadata": metadata(names.topology, labels: commonLabels),
      "spec": [
        "podSelector": ["matchLabels": .texts(commonLabels)],
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [["from": own]],
        // The servers of names may be pods, or a process of each host's.
        "egress": [
          ["to": own],
          ["ports": [["protocol": "UDP", "port": 53], ["protocol": "TCP", "port": 53]]],
        ],
      ],
    ]
  }
}

/// Why a topology cannot be written as manifests.
package enum ManifestError: Error, Hashable, Sendable {
  /// The deployment has another engine.
  case otherEngine(Deployment.Engine)
  /// The files do not fit into a ConfigMap. Unit: bytes.
  case tooLarge(Int)
  /// A variable stands for one thing in one file, and for another in the other.
  case twoValues(String, String, String)
  /// A file is no UTF-8 text.
  case notText(String)
}

extension ManifestError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .otherEngine(let engine):
      "the deployment has engine '\(engine.rawValue)', and manifests are Kubernetes': write 'engine: kubernetes', "
        + "'image' and the hosts or labels of each place"
    case .tooLarge(let size):
      "the two files have \(size) bytes together, and a ConfigMap takes \(ManifestSet.fileLimit); keep large data in "
        + "files of the image, which parameters name"
    case .twoValues(let name, let first, let second):
      "variable '\(name)' stands for one thing in '\(first)' and for another in '\(second)', since the files '.env' "
        + "beside them differ, and a pod has one environment for both; name it otherwise in one of them"
    case .notText(let file): "'\(file)' is no UTF-8 text, which a ConfigMap asks for"
    }
  }
}

/// The keys of a topology in a cluster, as texts: what its Secrets are made of.
package struct ManifestKeys: Sendable {
  /// Those of a process's agent.
  package struct Agent: Sendable {
    /// What its key file holds.
    package var file: String
    /// The public half, which the orchestrator lets in.
    package var key: String

    package init(file: String, key: String) {
      self.file = file
      self.key = key
    }
  }

  /// Those of the orchestrator.
  package struct Orchestrator: Sendable {
    /// The key file of its pair.
    package var control: String
    /// That of clients elsewhere.
    package var client: String

    package init(control: String, client: String) {
      self.control = control
      self.client = client
    }
  }

  /// `nil` where it has its own already.
  package var orchestrator: Orchestrator?
  /// By the processes' names: of those that get new ones.
  package var agents: [String: Agent]

  package init(orchestrator: Orchestrator?, agents: [String: Agent]) {
    self.orchestrator = orchestrator
    self.agents = agents
  }
}
