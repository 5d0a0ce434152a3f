import PipeMachines
import PipeSupport
import PipeTopology
import PipeWire

// The StatefulSets, and the pods in them.
extension ManifestSet {
  /// Where what a process records is, and its sockets.
  private static let root = "/var/lib/piperuntime"
  private static let settings = "/etc/piperuntime"
  /// Of the two files.
  static let topologyDirectory = settings + "/topology"
  /// Of keys: its owner and its group may read.
  private static let secretMode = 0o440
  /// Who the processes are. No image has to have a name for it.
  private static let user = 1000

  // MARK: StatefulSets

  /// One replica: a second one is not started before the first has ended for certain.
  func statefulSet(_ process: ManifestProcess) -> ManifestTree {
    let key = Self.settings + "/" + Self.agentKey
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
    // One file of it: what else the image has in the directory stays there.
    let mounts: [ManifestTree] = [
      [
        "name": "key", "mountPath": .string(key), "subPath": .string(Self.agentKey),
        "readOnly": true,
      ]
    ]
    return statefulSet(
      process, pod: pod(process, container, mounts, [Self.volume("key", secret: process.object)]),
      grace: graceOfNode, annotations: nil)
  }

  func statefulSet(ofOrchestrator process: ManifestProcess) -> ManifestTree {
    let directory = Self.topologyDirectory
    let keys = Self.settings + "/keys"
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
    // Beside the two files are those that the image has for its machines.
    let mounts: [ManifestTree] =
      files.map {
        [
          "name": "files", "mountPath": .string("\(directory)/\($0.name)"),
          "subPath": .string($0.name), "readOnly": true,
        ]
      } + [["name": "keys", "mountPath": .string(keys), "readOnly": true]]
    let volumes: [ManifestTree] = [
      ["name": "files", "configMap": ["name": .string(filesMap)]],
      keysVolume,
    ]
    // Files that have changed are read by another pod.
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
    let empty: [ManifestTree] =
      (process.hasJournal ? [] : [["name": "data", "emptyDir": [:]]])
      + [["name": "tmp", "emptyDir": [:]]]
    let pod: ManifestTree = [
      "automountServiceAccountToken": false, "enableServiceLinks": false,
      "securityContext": [
        "runAsNonRoot": true, "runAsUser": .number(Self.user), "runAsGroup": .number(Self.user),
        "fsGroup": .number(Self.user), "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": ["type": "RuntimeDefault"],
      ],
      // A host that is cut off keeps its pod, which goes on when it is back.
      "tolerations": .list(
        ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"].map {
          ["key": .string($0), "operator": "Exists", "effect": "NoExecute"]
        }),
    ]
    return pod.with([
      "nodeSelector": process.place.flatMap { $0.labels.isEmpty ? nil : .texts($0.labels) },
      "affinity": process.place.flatMap { $0.hosts.isEmpty ? nil : Self.affinity(to: $0.hosts) },
      "containers": [container], "volumes": .list(volumes + empty),
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

  /// The orchestrator's own keys, and of each process the public one: a process that is added brings its own.
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

  /// How long a pod may take to end beyond what is waited for. Unit: seconds.
  private static let margin = 15

  /// As long as the topology lets any node take, and some. Unit: seconds.
  private var graceOfNode: Int {
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

/// A process that a pod is for.
package struct ManifestProcess: Hashable, Sendable {
  /// What it is, as the label `app.kubernetes.io/component` has it.
  package enum Component: String, Hashable, Sendable {
    case node, coordinator, orchestrator
  }

  /// The name by which the topology has it.
  package let name: String
  package let component: Component
  /// That of its objects.
  package let object: String
  /// Where it is to run; `nil` for anywhere in the cluster.
  let place: DeploymentPlace?
  /// Whether it records something that is to outlive its pod.
  let hasJournal: Bool

  /// Those of a topology that agents start, in the order of the file: nodes, coordinators. What lives within another
  /// process is none, and monitors live in the orchestrator's pod.
  static func all(
    of topology: Topology, _ classes: [ConflictClassPlan], in deployment: Deployment,
    _ names: ClusterNames
  ) -> [ManifestProcess] {
    let nodes = topology.nodes.map { node in
      let lodges = classes.contains { $0.host == node.name && $0.durability != .volatile }
      return ManifestProcess(
        name: node.name, component: .node, object: names.object(of: node.name),
        place: node.place.flatMap(deployment.place),
        hasJournal: lodges
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

/// A part of a manifest, whose mappings keep their order.
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

  /// Labels and the like, by their keys.
  package static func texts(_ texts: [String: String]) -> OrderedValue {
    .mapping(texts.sorted { $0.key < $1.key }.map { (key: $0.key, value: .string($0.value)) })
  }

  /// A mapping with further members, of which those that are `nil` are left out.
  func with(_ members: KeyValuePairs<String, OrderedValue?>) -> OrderedValue {
    guard case .mapping(let own) = self else { return self }
    return .mapping(own + members.compactMap { key, value in value.map { (key: key, value: $0) } })
  }
}
