import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire

// The StatefulSets and their pods.
extension ManifestSet {
  /// The directory of a process's records and sockets.
  private static let root = "/var/lib/piperuntime"
  private static let settingsDirectory = "/etc/piperuntime"
  /// The directory of the topology file and the deployment file.
  static let topologyDirectory = settingsDirectory + "/topology"
  /// The file mode of keys: readable for owner and group.
  private static let secretMode = 0o440
  /// The user and group of the processes. The image need not have a name for them.
  private static let user = 1000

  // MARK: StatefulSets

  /// Returns the StatefulSet of a process, with one replica. Kubernetes starts another pod only
  /// when the first has certainly ended.
  func statefulSet(_ process: ManifestProcess) -> ManifestTree {
    let key = Self.settingsDirectory + "/" + Self.agentKey
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
    // Mount only this file, so that other files of the image in the directory stay visible.
    let mounts: [ManifestTree] = [
      [
        "name": "key", "mountPath": .string(key), "subPath": .string(Self.agentKey),
        "readOnly": true,
      ]
    ]
    return statefulSet(
      process, pod: pod(process, container, mounts, [Self.volume("key", secret: process.object)]),
      grace: nodeGracePeriod, annotations: nil)
  }

  func statefulSet(ofOrchestrator process: ManifestProcess) -> ManifestTree {
    let directory = Self.topologyDirectory
    let keys = Self.settingsDirectory + "/keys"
    let container: ManifestTree = [
      "name": "orchestrator", "image": .string(image),
      "command": .strings([
        "orchestrator", "run", "\(directory)/\(files[0].name)", "--deployment",
        "\(directory)/\(files[1].name)", "--keys", keys, "--own-address", "$(POD_IP)", "--plain",
      ]),
      "ports": [["name": "control", "containerPort": .number(deployment.port), "protocol": "TCP"]],
      "env": .list([Self.variable("POD_IP", field: "status.podIP"), Self.rootVariable]),
    ]
    let values: ManifestTree? =
      variables.isEmpty ? nil : [["secretRef": ["name": .string(variablesSecret)]]]
    // Mounted as single files, because the directory may have files of the image for the machines.
    let mounts: [ManifestTree] =
      files.map {
        [
          "name": "files", "mountPath": .string("\(directory)/\($0.name)"),
          "subPath": .string($0.name), "readOnly": true,
        ]
      } + [["name": "keys", "mountPath": .string(keys), "readOnly": true]]
    let volumes: [ManifestTree] = [
      ["name": "files", "configMap": ["name": .string(filesConfigMap)]],
      keysVolume,
    ]
    // Changed files change this annotation, so that Kubernetes replaces the pod.
    let text = files.map { "\($0.name)\n\($0.text)\n" }.joined()
    return statefulSet(
      process, pod: pod(process, container.with(["envFrom": values]), mounts, volumes),
      grace: Self.margin, annotations: ["piperuntime/files": FNV.text(of: text)])
  }

  private func statefulSet(
    _ process: ManifestProcess, pod: ManifestTree, grace: Int, annotations: [String: String]?
  ) -> ManifestTree {
    let labels = labels(of: process)
    let podMetadata: ManifestTree = ["labels": .texts(labels)]
    let spec: ManifestTree = [
      "replicas": 1, "serviceName": .string(process.object), "podManagementPolicy": "Parallel",
      "selector": ["matchLabels": .texts(selector(of: process))],
      "template": [
        "metadata": podMetadata.with(["annotations": annotations.map { .texts($0) }]),
        "spec": ManifestTree.mapping([("terminationGracePeriodSeconds", .number(grace))])
          .joined(with: pod),
      ],
    ]
    return [
      "apiVersion": "apps/v1", "kind": "StatefulSet",
      "metadata": metadata(process.object, labels: labels),
      "spec": spec.with(["volumeClaimTemplates": process.hasJournal ? [claim(of: process)] : nil]),
    ]
  }

  private func claim(of process: ManifestProcess) -> ManifestTree {
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
      ["name": "data", "mountPath": .string(Self.root)], ["name": "tmp", "mountPath": "/tmp"],
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
        "runAsNonRoot": true, "runAsUser": .number(Self.user), "runAsGroup": .number(Self.user),
        "fsGroup": .number(Self.user), "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": ["type": "RuntimeDefault"],
      ],
      // The pod of an unreachable host is not evicted: it continues when the host is back.
      "tolerations": .list(
        ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"].map {
          ["key": .string($0), "operator": "Exists", "effect": "NoExecute"]
        }),
    ]
    return pod.with([
      "nodeSelector": process.place.flatMap { $0.labels.isEmpty ? nil : .texts($0.labels) },
      "affinity": process.place.flatMap { $0.hosts.isEmpty ? nil : Self.affinity(to: $0.hosts) },
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

  /// The volume with the orchestrator's own keys and the public key of each process. A new process
  /// adds its own key.
  private var keysVolume: ManifestTree {
    let agents = processes.map { process -> ManifestTree in
      let item: ManifestTree = [
        "key": .string(Self.publicKey), "path": .string(process.name + ".agent"),
      ]
      return ["secret": ["name": .string(process.object), "items": [item]]]
    }
    return [
      "name": "keys",
      "projected": [
        "defaultMode": .number(Self.secretMode),
        "sources": .list([["secret": ["name": .string(names.orchestrator)]]] + agents),
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
    "name": "PIPERUNTIME_ROOT", "value": .string(root),
  ]

  private func probe(_ command: [String], every seconds: Int, failures: Int) -> ManifestTree {
    [
      "exec": ["command": .strings(command)], "periodSeconds": .number(seconds),
      "timeoutSeconds": 5, "failureThreshold": .number(failures),
    ]
  }

  // MARK: The end

  /// The time that a pod may take to end, in addition to the expected time. Unit: seconds.
  private static let margin = 15

  /// The grace period of a node's pod: the longest stop timeout of any node, and a margin. Unit: seconds.
  private var nodeGracePeriod: Int {
    let longest =
      topology.nodes.map { topology.timeouts(of: $0).stop }.max() ?? topology.timeouts.stop
    return Int((longest / .seconds(1)).rounded(.up)) + Self.margin
  }
}

extension OrderedValue {
  fileprivate func joined(with other: OrderedValue) -> OrderedValue {
    guard case .mapping(let first) = self, case .mapping(let second) = other else { return self }
    return .mapping(first + second)
  }
}

/// A process with its own pod.
package struct ManifestProcess: Hashable, Sendable {
  /// The kind of process, as in the label `app.kubernetes.io/component`.
  package enum Component: String, Hashable, Sendable {
    case node, coordinator, orchestrator
  }

  /// The name in the topology.
  package let name: String
  package let component: Component
  /// The name of the process's objects.
  package let object: String
  /// The place where the process must run; `nil` for any node of the cluster.
  let place: Placement?
  /// Whether the process keeps records that must outlive its pod.
  let hasJournal: Bool

  /// Returns the processes of a topology that agents start, in the order of the file: nodes, then
  /// coordinators.
  ///
  /// Embedded coordinators have no process of their own, and monitors run in the orchestrator's
  /// pod.
  static func all(
    of topology: Topology, _ classes: [ConflictClassPlan], in deployment: Deployment,
    _ names: ClusterNames
  ) -> [ManifestProcess] {
    let nodes = topology.nodes.map { node in
      let embedsJournal = classes.contains { $0.host == node.name && $0.durability != .volatile }
      return ManifestProcess(
        name: node.name, component: .node, object: names.object(of: node.name),
        place: node.place.flatMap(deployment.place),
        hasJournal: embedsJournal
          || node.constant == nil && topology.durability(of: node.name) != .volatile)
    }
    let coordinators = classes.filter { $0.host == nil }.map {
      ManifestProcess(
        name: $0.name, component: .coordinator, object: names.object(of: $0.name), place: nil,
        hasJournal: $0.durability != .volatile)
    }
    return nodes + coordinators
  }
}

/// A part of a manifest, with ordered mappings.
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

  /// A mapping of texts, such as labels, sorted by key.
  package static func texts(_ texts: [String: String]) -> OrderedValue {
    .mapping(texts.sorted { $0.key < $1.key }.map { (key: $0.key, value: .string($0.value)) })
  }

  /// Returns the mapping with further members; members that are `nil` are left out.
  func with(_ members: KeyValuePairs<String, OrderedValue?>) -> OrderedValue {
    guard case .mapping(let own) = self else { return self }
    return .mapping(own + members.compactMap { key, value in value.map { (key: key, value: $0) } })
  }
}
