import PipeMachines

/// What an engine asks a deployment file for, and what says nothing with it: for the reader and the schema.
struct EngineKeys {
  /// Keys that say nothing, and what the reader tells to do.
  typealias Idle = KeyValuePairs<String, String>

  /// The keys at the top level that there must be.
  var needed: [String] = []
  var idle: Idle
  /// The keys that say where a place is, of which there must be one.
  let place: [String]
  let idleOfPlace: Idle

  static func of(_ engine: Deployment.Engine) -> EngineKeys {
    let remove = "; remove it"
    return switch engine {
    case .local:
      EngineKeys(
        idle: [
          "lease": remove, "image": remove, "namespace": remove, "port": remove, "storage": remove,
        ],
        place: ["address"], idleOfPlace: ["hosts": remove, "spare": remove, "labels": remove])
    case .slurm:
      EngineKeys(
        idle: ["image": remove, "namespace": remove, "port": remove, "storage": remove],
        place: ["hosts"], idleOfPlace: ["address": remove, "labels": remove])
    case .kubernetes:
      EngineKeys(
        needed: ["image"],
        idle: [
          "address": ", where each pod has an address of its own; remove it",
          "journals":
            ", where each journal is on a volume claim of its pod's; remove it, and write 'storage'",
          "lease": ", where no node moves; remove it",
        ],
        place: ["hosts", "labels"],
        idleOfPlace: [
          "address":
            ", where each pod has an address of its own; remove it, and write 'hosts' or 'labels'",
          "spare":
            ", where a pod waits for its host; remove it, and name all hosts in 'hosts'",
        ])
    }
  }

  /// What the schema says of files with this engine.
  func rule(of engine: Deployment.Engine) -> JSONValue {
    var condition: [String: JSONValue] = [
      "properties": ["engine": ["enum": [.string(engine.rawValue)]]]
    ]
    if engine != Deployment().engine { condition["required"] = ["engine"] }
    var places: [String: JSONValue] = ["properties": Self.none(of: idleOfPlace)]
    if place.count == 1 {
      places["required"] = .texts(place)
    } else {
      places["anyOf"] = .array(place.map { ["required": [.string($0)]] })
      places["not"] = ["required": .texts(place)]
    }
    var properties = idle.map { ($0.key, JSONValue.bool(false)) }
    properties.append(("places", ["additionalProperties": .object(places)]))
    var file: [String: JSONValue] = [
      "properties": .object(Dictionary(properties) { first, _ in first })
    ]
    if !needed.isEmpty { file["required"] = .texts(needed) }
    return ["if": .object(condition), "then": .object(file)]
  }

  private static func none(of keys: Idle) -> JSONValue {
    .object(Dictionary(keys.map { ($0.key, false) }) { first, _ in first })
  }
}

extension TopologyReading {
  /// There is what the engine asks for, and nothing that it does not know: at the top, and of each place.
  mutating func checkKeys(of deployment: Deployment) {
    let engine = deployment.engine
    let keys = EngineKeys.of(engine)
    for key in keys.needed where !source.has([key]) {
      report(
        .missingKey, at: [],
        "the deployment has no '\(key)', which engine '\(engine.rawValue)' asks for; add it")
    }
    refuse(keys.idle, in: [], of: "the deployment", engine)
    for place in deployment.places {
      let path = ["places", place.name]
      let found = keys.place.filter { source.has(path + [$0]) }
      let names = keys.place.map { "'\($0)'" }.joined(separator: " or ")
      if found.isEmpty {
        report(
          .missingKey, at: path,
          "place '\(place.name)' has no \(names), which engine '\(engine.rawValue)' asks for; add it"
        )
      } else if found.count > 1 {
        report(
          .conflictingKeys, at: source.mark(ofKey: path + [found[1]]),
          "place '\(place.name)' has '\(found[0])' and '\(found[1])', and either says where it is; remove one"
        )
      }
      refuse(keys.idleOfPlace, in: path, of: "place '\(place.name)'", engine)
    }
  }

  private mutating func refuse(
    _ idle: EngineKeys.Idle, in path: [String], of owner: String, _ engine: Deployment.Engine
  ) {
    for (key, remedy) in idle where source.has(path + [key]) {
      report(
        .conflictingKeys, at: source.mark(ofKey: path + [key]),
        "\(owner): '\(key)' says nothing with engine '\(engine.rawValue)'\(remedy)")
    }
  }
}
