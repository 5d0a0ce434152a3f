import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire

// The StatefulSets of a topology, and their pods.
extension ManifestSet {
  /// The directory that contains a process's records and sockets.
  private static let rootDirectory = "/var/lib/piperuntime"
  private static let settingsDirectory = "/etc/piperuntime"
  /// The directory that contains the topology file and the deployment file.
  static let topologyDirectory = settingsDirectory + "/topology"
  /// The file mode of key files: the owner and the group can read them.
  private static let secretMode = 0o440
  /// The user id and the group id of the processes. The image does not have to define names for
  /// these ids.
  private static let userID = 1000

  // MARK: StatefulSets

  /// Returns the StatefulSet of a process, with one replica. Kubernetes starts another pod only
  /// after the former pod has certainly ended.
  func statefulSet(_ process: ManifestProcess) -> ManifestTree {
    let key = Self.settingsDirectory + "/" + Self.agentKeyFileName
    let container: ManifestTree = [
      "name": "agent", "image": .string(image),
      "command": .strings([
        "orchestrator", "agent", process.name, "--key", key, "--address", "$(POD_IP)", "--host",
        "$(HOST_NAME)",
      ]),
      "env": .list([
        Self.variable("POD_IP", field: "status.podIP"),
        Self.variable("HOST_NAME", field: "spec.nodeName"), Self.rootVariable,
      ]),
    ]
    // Mounts only the key file, so that the image's other files in the same directory stay visible.
    let mounts: [ManifestTree] = [
      [
        "name": "key", "mountPath": .string(key), "subPath": .string(Self.agentKeyFileName),
        "readOnly": true,
      ]
    ]
    return statefulSet(
      process,
      pod: pod(process, container, mounts, [Self.volume("key", secret: process.objectName)]),
      gracePeriodSeconds: nodeGracePeriod, annotations: nil)
  }

  func statefulSet(ofOrchestrator process: ManifestProcess) -> ManifestTree {
    let directory = Self.topologyDirectory
    let keys = Self.settingsDirectory + "/keys"
    let container: ManifestTree = [
      "name": "orchestrator", "image": .string(image),
      "command": .strings([
        "orchestrator", "run", "\(directory)/\(sourceFiles[0].name)", "--deployment",
        "\(directory)/\(sourceFiles[1].name)", "--keys", keys, "--own-address", "$(POD_IP)",
        "--plain",
      ]),
      "ports": [["name": "control", "containerPort": .number(deployment.port), "protocol": "TCP"]],
      "env": .list([Self.variable("POD_IP", field: "status.podIP"), Self.rootVariable]),
    ]
    let values: ManifestTree? =
      variables.isEmpty ? nil : [["secretRef": ["name": .string(variablesSecret)]]]
    // Mounts the files one by one, so that the machines' files, which the image may have in the
    // same directory, stay visible.
    let mounts: [ManifestTree] =
      sourceFiles.map {
        [
          "name": "files", "mountPath": .string("\(directory)/\($0.name)"),
          "subPath": .string($0.name), "readOnly": true,
        ]
      } + [["name": "keys", "mountPath": .string(keys), "readOnly": true]]
    let volumes: [ManifestTree] = [
      ["name": "files", "configMap": ["name": .string(filesConfigMap)]],
      keysVolume,
    ]
    // When the topology file or the deployment file changes, this annotation changes as well, so
    // that Kubernetes replaces the pod.
    let text = sourceFiles.map { "\($0.name)\n\($0.text)\n" }.joined()
    return statefulSet(
      process, pod: pod(process, container.with(["envFrom": values]), mounts, volumes),
      gracePeriodSeconds: Self.gracePeriodMarginSeconds,
      annotations: ["piperuntime/files": FNV.hexadecimalHash(of: text)])
  }

  private func statefulSet(
    _ process: ManifestProcess, pod: ManifestTree, gracePeriodSeconds: Int,
    annotations: [String: String]?
  ) -> ManifestTree {
    let labels = labels(of: process)
    let podMetadata: ManifestTree = ["labels": .texts(labels)]
    let spec: ManifestTree = [
      "replicas": 1, "serviceName": .string(process.objectName), "podManagementPolicy": "Parallel",
      "selector": ["matchLabels": .texts(selector(of: process))],
      "template": [
        "metadata": podMetadata.with(["annotations": annotations.map { .texts($0) }]),
        "spec": ManifestTree.mapping([
          ("terminationGracePeriodSeconds", .number(gracePeriodSeconds))
        ])
        .joined(with: pod),
      ],
    ]
    return [
      "apiVersion": "apps/v1", "kind": "StatefulSet",
      "metadata": metadata(process.objectName, labels: labels),
      "spec": spec.with([
        "volumeClaimTemplates": process.hasJournal ? [volumeClaim(of: process)] : nil
      ]),
    ]
  }

  private func volumeClaim(of process: ManifestProcess) -> ManifestTree {
    let spec: ManifestTree = [
      "accessModes": ["ReadWriteOnce"],
      "resources": ["requests": ["storage": .string(deployment.storage.size)]],
    ]
    return [
      "metadata": ["name": "data", "labels": .texts(selector(of: process))],
      "spec": spec.with(["storageClassName": deployment.storage.className.map { .string($0) }]),
    ]
  }

  // MARK: Pods

  private func pod(
    _ process: ManifestProcess, _ container: ManifestTree, _ mounts: [ManifestTree],
    _ volumes: [ManifestTree]
  ) -> ManifestTree {
    let own: [ManifestTree] = [
      ["name": "data", "mountPath": .string(Self.rootDirectory)],
      ["name": "tmp", "mountPath": "/tmp"],
    ]
    let container = container.with([
      "startupProbe": probe(["orchestrator", "probe"], every: 2, failures: 60),
      "livenessProbe": probe(["orchestrator", "probe"], every: 10, failures: 6),
      "readinessProbe": probe(["orchestrator", "probe", "--ready"], every: 5, failures: 3),
      "securityContext": [
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
        "capabilities": ["drop": ["ALL"]],
      ],
      "volumeMounts": .list(own + mounts),
    ])
    let emptyVolumes: [ManifestTree] =
      (process.hasJournal ? [] : [["name": "data", "emptyDir": [:]]])
      + [["name": "tmp", "emptyDir": [:]]]
    let pod: ManifestTree = [
      "automountServiceAccountToken": false, "enableServiceLinks": false,
      "securityContext": [
        "runAsNonRoot": true, "runAsUser": .number(Self.userID), "runAsGroup": .number(Self.userID),
        "fsGroup": .number(Self.userID), "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": ["type": "RuntimeDefault"],
      ],
      // With these tolerations, Kubernetes does not evict pods from an unreachable host. The pods
      // continue when the host returns.
      "tolerations": .list(
        ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"].map {
          ["key": .string($0), "operator": "Exists", "effect": "NoExecute"]
        }),
    ]
    return pod.with([
      "nodeSelector": process.placement.flatMap { $0.labels.isEmpty ? nil : .texts($0.labels) },
      "affinity": process.placement.flatMap {
        $0.hosts.isEmpty ? nil : Self.affinity(to: $0.hosts)
      },
      "containers": [container], "volumes": .list(volumes + emptyVolumes),
    ])
  }

  private static func affinity(to hosts: [String]) -> ManifestTree {
    let hosts: ManifestTree = [
      "key": "kubernetes.io/hostname", "operator": "In", "values": .strings(hosts),
    ]
    return [
      "nodeAffinity": [
        "requiredDuringSchedulingIgnoredDuringExecution": [
          "nodeSelectorTerms": [["matchExpressions": [hosts]]]
        ]
      ]
    ]
  }

  /// The volume with the orchestrator's own keys and the public key of each process. When a process
  /// is added, its key appears in the volume.
  private var keysVolume: ManifestTree {
    let agents = processes.map { process -> ManifestTree in
      let item: ManifestTree = [
        "key": .string(Self.agentPublicKeyFileName), "path": .string(process.name + ".agent"),
      ]
      return ["secret": ["name": .string(process.objectName), "items": [item]]]
    }
    return [
      "name": "keys",
      "projected": [
        "defaultMode": .number(Self.secretMode),
        "sources": .list([["secret": ["name": .string(clusterNames.orchestrator)]]] + agents),
      ],
    ]
  }

  private static func volume(_ name: String, secret: String) -> ManifestTree {
    [
      "name": .string(name),
      "secret": ["secretName": .string(secret), "defaultMode": .number(secretMode)],
    ]
  }

  private static func variable(_ name: String, field: String) -> ManifestTree {
    ["name": .string(name), "valueFrom": ["fieldRef": ["fieldPath": .string(field)]]]
  }

  private static let rootVariable: ManifestTree = [
    "name": "PIPERUNTIME_ROOT", "value": .string(rootDirectory),
  ]

  private func probe(_ command: [String], every seconds: Int, failures: Int) -> ManifestTree {
    [
      "exec": ["command": .strings(command)], "periodSeconds": .number(seconds),
      "timeoutSeconds": 5, "failureThreshold": .number(failures),
    ]
  }

  // MARK: Grace periods of pods

  /// The time that a pod may need to end, in addition to the stop timeout. Unit: seconds.
  private static let gracePeriodMarginSeconds = 15

  /// The grace period of a node's pod: the longest of all nodes' stop timeouts, plus
  /// ``gracePeriodMarginSeconds``. Unit: seconds.
  private var nodeGracePeriod: Int {
    let longest =
      topology.nodes.map { topology.timeouts(of: $0).stop }.max() ?? topology.timeouts.stop
    return Int((longest / .seconds(1)).rounded(.up)) + Self.gracePeriodMarginSeconds
  }
}

extension OrderedValue {
  fileprivate func joined(with other: OrderedValue) -> OrderedValue {
    guard case .mapping(let first) = self, case .mapping(let second) = other else { return self }
    return .mapping(first + second)
  }
}

/// A process that runs in a pod of its own.
package struct ManifestProcess: Hashable, Sendable {
  /// The kind of process, which is also the value of the label `app.kubernetes.io/component`.
  package enum Component: String, Hashable, Sendable {
    case node, coordinator, orchestrator
  }

  /// The name of the node or coordinator in the topology.
  package let name: String
  package let component: Component
  /// The name of the Kubernetes objects that belong to the process.
  package let objectName: String
  /// The placement of the process; `nil` if it can run on any host of the cluster.
  let placement: Placement?
  /// Whether the process has a journal, which must outlive the pod.
  let hasJournal: Bool

  /// Returns the processes that agents start. The nodes come first, in the order of the topology
  /// file, and then the coordinators, in the order of `coordinatorPlans`.
  ///
  /// An embedded coordinator has no process of its own, and a monitor runs in the orchestrator's
  /// pod.
  static func all(
    of topology: Topology, _ coordinatorPlans: [ConflictClassPlan], in deployment: Deployment,
    _ names: ClusterNames
  ) -> [ManifestProcess] {
    let nodes = topology.nodes.map { node in
      let embedsJournal = coordinatorPlans.contains {
        $0.host == node.name && $0.durability != .volatile
      }
      return ManifestProcess(
        name: node.name, component: .node, objectName: names.objectName(of: node.name),
        placement: node.place.flatMap(deployment.place),
        hasJournal: embedsJournal
          || node.constant == nil && topology.durability(of: node.name) != .volatile)
    }
    let coordinators = coordinatorPlans.filter { $0.host == nil }.map {
      ManifestProcess(
        name: $0.name, component: .coordinator, objectName: names.objectName(of: $0.name),
        placement: nil,
        hasJournal: $0.durability != .volatile)
    }
    return nodes + coordinators
  }
}

/// A part of a manifest. Mappings keep the order of their members.
package typealias ManifestTree = OrderedValue

extension OrderedValue: ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral,
  ExpressibleByStringInterpolation, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral
{
  package init(dictionaryLiteral members: (String, OrderedValue)...) {
    self = .mapping(members.map { (key: $0.0, value: $0.1) })
  }
  package init(arrayLiteral elements: OrderedValue...) { self = .list(elements) }
  package init(stringLiteral text: String) { self = .leaf(.string(text)) }
  package init(integerLiteral number: Int) { self = .leaf(.integer(Int64(number))) }
  package init(booleanLiteral value: Bool) { self = .leaf(.bool(value)) }
}

extension OrderedValue {
  package static func string(_ text: String) -> OrderedValue { .leaf(.string(text)) }
  static func strings(_ texts: [String]) -> OrderedValue { .list(texts.map { .string($0) }) }
  static func number(_ number: Int) -> OrderedValue { .leaf(.integer(Int64(number))) }

  /// Returns a mapping of texts, such as labels. The texts are sorted by key.
  package static func texts(_ texts: [String: String]) -> OrderedValue {
    .mapping(texts.sorted { $0.key < $1.key }.map { (key: $0.key, value: .string($0.value)) })
  }

  /// Returns the mapping with additional members. Members that are `nil` are omitted.
  func with(_ members: KeyValuePairs<String, OrderedValue?>) -> OrderedValue {
    guard case .mapping(let own) = self else { return self }
    return .mapping(own + members.compactMap { key, value in value.map { (key: key, value: $0) } })
  }
}
