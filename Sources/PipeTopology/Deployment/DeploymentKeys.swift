import PipeMachines

/// The keys of deployment files, described as those of topology files are.
package enum DeploymentKeys {
  /// The tables of docs/DEPLOYMENT.md, by their headings.
  package static let tables = [("Top level", top.lines), ("A place", place.lines)]

  static let top = TopologyMapping(
    meaning: "Where the places are that the nodes of topologies name.",
    start: Deployment(),
    keys: [
      TopologyKey(
        "engine", \.engine, .choice,
        "What starts processes: `local`, the orchestrator, on its own machine; or `slurm`, within a job"
      ),
      TopologyKey(
        "address", \.address, .address,
        "Where the orchestrator, and the nodes without a place, listen: an IPv4 address in numbers",
        standard: "`127.0.0.1`; with `slurm` that of the orchestrator's host"),
      TopologyKey(
        "places", \.places, .named(.place, place, \.name),
        "The places by name, as nodes name them with `place`", standard: "none"),
      TopologyKey(
        "journals", \.journals, .text("a path"),
        "The directory of the journals of nodes with `on_host_loss: move`, which all hosts see: a path from the "
          + "file's directory. Needed where such a node has a journal",
        standard: "each host's own"),
      TopologyKey(
        "lease", \.lease, .leaseTerm,
        "With `slurm`: how long a node with `on_host_loss: move` goes on without the orchestrator, from 2s to 30s. A "
          + "tenth later it can be started on another host", standard: "`5s`"),
    ],
    rules: [
      "patternProperties": ["^x-": true], "allOf": .array(Deployment.Engine.allCases.map(rule)),
    ]
  ) { reading, fields, deployment in
    // One that could not be read asks for nothing.
    if fields["engine"] == nil || fields.read.contains("engine") {
      reading.checkPlaces(of: deployment)
      if deployment.engine == .local, reading.source.has(["lease"]) {
        reading.report(
          .conflictingKeys, at: reading.source.mark(ofKey: ["lease"]),
          "the deployment: 'lease' says nothing with engine 'local'; remove it")
      }
    }
    return true
  }

  static let place = TopologyMapping(
    meaning: "A place, and where it is.",
    start: DeploymentPlace(name: ""),
    keys: [
      TopologyKey(
        "address", \.address, .address,
        "With `local`: where its nodes listen, an IPv4 address in numbers",
        standard: "needed with `local`"),
      TopologyKey(
        "hosts", \.hosts, .hosts,
        "With `slurm`: its hosts, by the names that Slurm has for them. Nodes are dealt to them in turn, in the "
          + "order of the topology", standard: "needed with `slurm`"),
      TopologyKey(
        "spare", \.spare, .hosts,
        "With `slurm`: hosts to which its nodes with `on_host_loss: move` go first where theirs is lost",
        standard: "none"),
    ])

  /// The key that says where a place is, and those that say nothing there.
  fileprivate static func keys(of engine: Deployment.Engine) -> (needed: String, idle: [String]) {
    switch engine {
    case .local: ("address", ["hosts", "spare"])
    case .slurm: ("hosts", ["address"])
    }
  }

  /// What the schema says of places by the engine.
  private static func rule(of engine: Deployment.Engine) -> JSONValue {
    let keys = keys(of: engine)
    let isEngine: JSONValue = ["properties": ["engine": ["enum": [.string(engine.rawValue)]]]]
    let condition: JSONValue =
      engine == .local
      ? isEngine : ["properties": isEngine["properties"] ?? .null, "required": ["engine"]]
    var properties: [String: JSONValue] = [
      "places": [
        "additionalProperties": [
          "required": [.string(keys.needed)],
          "properties": .object(Dictionary(keys.idle.map { ($0, false) }) { first, _ in first }),
        ]
      ]
    ]
    if engine == .local { properties["lease"] = false }
    return ["if": condition, "then": ["properties": .object(properties)]]
  }
}

extension TopologyReading {
  /// Each place says where it is as the engine knows it.
  fileprivate mutating func checkPlaces(of deployment: Deployment) {
    let engine = deployment.engine
    let keys = DeploymentKeys.keys(of: engine)
    for place in deployment.places {
      let path = ["places", place.name]
      if !source.has(path + [keys.needed]) {
        report(
          .missingKey, at: source.mark(of: path),
          "place '\(place.name)' has no '\(keys.needed)', which engine '\(engine.rawValue)' asks for; add it"
        )
      }
      for key in keys.idle where source.has(path + [key]) {
        report(
          .conflictingKeys, at: source.mark(ofKey: path + [key]),
          "place '\(place.name)': '\(key)' says nothing with engine '\(engine.rawValue)'; remove it"
        )
      }
    }
  }
}
