import PipeKubernetes
import PipeRuntime

/// A hall: nodes with and without places, a composite whose coordinator has its own process, a
/// composite with an embedded coordinator, and a monitor.
enum Hall {
  static let topology = """
    topology: hall
    program: hall
    nodes:
      door: { machine: Door, place: front }
      Motor_2: { machine: Motor, place: back, depends_on: [door] }
      lamp: { constant: on }
      bell: { machine: Bell, durability: none, depends_on: [Motor_2] }
      gong: { machine: Bell, durability: none }
    monitors: { log: { monitor: StateLog } }
    timeouts: { stop: 2500ms }

    """
  static let deployment = """
    engine: kubernetes
    image: registry.example/hall:1.0
    storage: { size: 2Gi, class: fast }
    places:
      front: { hosts: [n1, n2] }
      back: { labels: { zone: east, tier: "2" } }

    """
  static let coordinatorPlans = [
    plan("lift", host: nil, .process), plan("belfry", host: "gong", .process),
    plan("chime", host: "bell", .volatile),
  ]

  static func plan(_ name: String, host: String?, _ durability: Durability) -> ConflictClassPlan {
    ConflictClassPlan(
      name: name, host: host, program: "hall", durability: durability, composites: [],
      components: [])
  }

  /// - Parameter variables: The values of the topology file's variables.
  static func set(
    _ topology: String = topology, by deployment: String = deployment,
    coordinatorPlans: [ConflictClassPlan] = coordinatorPlans, variables: [String: String] = [:],
    deploymentVariables: [String: String] = [:]
  ) throws -> ManifestSet {
    try ManifestSet(
      try TopologyReader.read(
        text: topology.utf8, file: "a/hall.yaml", variables: TopologyVariables([:])
      ).topology, coordinatorPlans: coordinatorPlans,
      file: .init(path: "a/hall.yaml", bytes: Array(topology.utf8), variables: variables),
      by: try DeploymentFile.read(
        text: deployment.utf8, file: "b/cluster.yaml", variables: TopologyVariables([:])
      ).deployment,
      deploymentFile: .init(
        path: "b/cluster.yaml", bytes: Array(deployment.utf8), variables: deploymentVariables))
  }

  static let keys = ManifestKeys(
    orchestrator: .init(control: "{\"control\":1}\n", client: "{\"client\":2}\n"),
    agents: Dictionary(
      uniqueKeysWithValues: ["door", "Motor_2", "lamp", "bell", "gong", "lift"].map {
        ($0, .init(file: "{\"\($0)\":3}\n", key: "public-\($0)"))
      }))
}

extension ManifestSet {
  /// Returns the object of a kind with a name.
  func object(_ kind: String, _ name: String) -> JSONValue? {
    manifests.map(\.json).first {
      $0["kind"]?.string == kind && $0["metadata"]?["name"]?.string == name
    }
  }

  /// Returns the pod of a process, as its StatefulSet describes it.
  func pod(_ name: String) -> JSONValue? {
    object("StatefulSet", name)?["spec"]?["template"]?["spec"]
  }

  func container(_ name: String) -> JSONValue? { pod(name)?["containers"]?.elements.first }
}

extension JSONValue {
  var elements: [JSONValue] { if case .array(let values) = self { values } else { [] } }
  var keys: [String] { if case .object(let members) = self { members.keys.sorted() } else { [] } }
  /// A list of texts.
  var strings: [String] { elements.compactMap(\.string) }

  /// Returns the element of a list with this name.
  func named(_ name: String) -> JSONValue? { elements.first { $0["name"]?.string == name } }
}
