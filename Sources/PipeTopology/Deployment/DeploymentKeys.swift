import PipeMachines
import PipeSupport
import PipeSystem

/// The declarations of the keys in deployment files.
package enum DeploymentKeys {
  /// The tables in docs/DEPLOYMENT.md: for each table, its heading and its lines of text.
  package static let documentationTables = [
    ("Top level", topLevel.tableLines), ("A place", place.tableLines),
  ]

  static let topLevel = TopologyMapping(
    meaning: "The addresses or hosts of the places that topologies name.",
    emptyModel: Deployment(),
    keys: [
      TopologyKey(
        "engine", \.engine, .choice,
        "What starts processes: the orchestrator on its own host (`local`), Slurm within a job "
          + "(`slurm`), or agents in pods (`kubernetes`)"
      ),
      TopologyKey(
        "address", \.address, .address,
        "The address at which the orchestrator and the nodes without a place listen: a numeric "
          + "IPv4 address",
        default: "`127.0.0.1`; with `slurm` the address of the orchestrator's host"),
      TopologyKey(
        "places", \.places, .named(.place, place, \.name),
        "The places by name; nodes refer to them with `place`", default: "none"),
      TopologyKey(
        "journals", \.journals, .text("a path"),
        "The directory of the journals of nodes with `on_host_loss: move`, shared by all hosts: a "
          + "path relative to the file's directory. Required if such a node has a journal",
        default: "a directory on each host"),
      TopologyKey(
        "lease", \.lease, .leaseTerm,
        "With `slurm`: how long a node with `on_host_loss: move` runs without contact to the "
          + "orchestrator, from 2s to 30s. After another tenth of that time the node can be "
          + "started on another host", default: "`5s`"),
      TopologyKey(
        "image", \.image, .image,
        "With `kubernetes`: the image of all containers, which contains `orchestrator` and the "
          + "topology's programs",
        default: "required with `kubernetes`"),
      TopologyKey(
        "namespace", \.namespace, .namespace, "With `kubernetes`: the namespace",
        default: "the topology's name as a DNS label"),
      TopologyKey(
        "port", \.port, .port, "With `kubernetes`: the port on which the orchestrator listens",
        default: "7300"),
      TopologyKey(
        "storage", \.storage, .omittingDefault(storage),
        "With `kubernetes`: the volume claim of each process that has a journal",
        default: "see below"),
      TopologyKey(
        "silence", \.silence, .warningCodes,
        "The expected warnings of `check` about this file, as a list of their codes: "
          + "`[unused-place]`",
        default: "none"),
    ],
    schemaRules: [
      "patternProperties": ["^x-": true],
      "allOf": .array(Deployment.Engine.allCases.map { EngineKeys.of($0).rule(of: $0) }),
    ]
  ) { reading, fields, deployment in
    // If the value of `engine` is invalid, it is not known which keys are required.
    if fields["engine"] == nil || fields.readKeys.contains("engine") {
      reading.checkKeys(of: deployment)
    }
    return true
  }

  static let place = TopologyMapping(
    meaning: "A place, and its address or hosts.",
    emptyModel: Placement(name: ""),
    keys: [
      TopologyKey(
        "address", \.address, .address,
        "With `local`: the address at which its nodes listen, a numeric IPv4 address",
        default: "required with `local`"),
      TopologyKey(
        "hosts", \.hosts, .hosts,
        "With `slurm`: its hosts, by their names in Slurm. Nodes are assigned to the hosts in "
          + "turn, in the order of the topology. With `kubernetes`: nodes of the cluster, by "
          + "their `kubernetes.io/hostname`; the scheduler chooses among them",
        default: "required with `slurm`; with `kubernetes` either `hosts` or `labels`"),
      TopologyKey(
        "spare", \.spare, .hosts,
        "With `slurm`: hosts to which its nodes with `on_host_loss: move` move first when their "
          + "host is lost",
        default: "none"),
      TopologyKey(
        "labels", \.labels, .labels,
        "With `kubernetes`: labels that a node of the cluster must have to run the pods of this "
          + "place: `{ NAME: value }`",
        default: "with `kubernetes` either `labels` or `hosts`"),
    ])

  private static let storage = TopologyMapping(
    meaning: "The volume claims in the cluster.",
    emptyModel: DeploymentStorage(),
    keys: [
      TopologyKey(
        "size", \.size, .storageSize,
        "The size of each volume: a number, and "
          + "a unit of `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `k`, `M`, `G`, `T`, `P`"
      ),
      TopologyKey(
        "class", \.className, .storageClass, "The storage class of each volume",
        default: "the cluster's default class"),
    ])
}

extension TopologyValueType<[String]> {
  /// The type of a list of unique host names.
  static var hosts: Self {
    Self(
      schema: [
        "type": "array", "minItems": 1, "uniqueItems": true,
        "items": .orVariable(.pattern(HostName.pattern)),
      ], writeValue: { $0.isEmpty ? nil : OrderedValue.names($0) }
    ) { reading, place in
      guard let elements = reading.elements(of: place, hint: "a list of hosts") else { return nil }
      var hosts: [String] = []
      for element in elements {
        guard let name = reading.string(element, hint: "a host name") else { continue }
        if !HostName.isValid(name) {
          reading.report(
            .badName, element,
            "lists '\(name)', which is not a valid host name; use letters, digits, '.', '-' and '_'"
          )
        } else if hosts.contains(name) {
          reading.report(.duplicateKey, element, "lists '\(name)' twice; remove one of them")
        } else {
          hosts.append(name)
        }
      }
      if elements.isEmpty {
        reading.report(.badValue, place, "is empty; list at least one host")
      }
      return hosts
    }
  }
}

extension TopologyValueType<Duration> {
  /// The type of a lease: how long a process may run without contact to its orchestrator.
  static var leaseTerm: Self {
    let terms = Deployment.leaseRange
    let duration = positiveDuration
    // The writer omits the default value, because some engines reject the key.
    var kind = Self(
      schema: duration.schema,
      writeValue: { $0 == Deployment.defaultLease ? nil : duration.writeValue($0) }
    ) { reading, place in
      guard let term = duration.readValue(&reading, place) else { return nil }
      guard terms.contains(term) else {
        reading.report(
          .badDuration, place,
          "must be from \(DurationText.write(terms.lowerBound)) to \(DurationText.write(terms.upperBound)), not "
            + DurationText.write(term))
        return nil
      }
      return term
    }
    kind.schemaDefinitions = duration.schemaDefinitions
    return kind
  }
}

/// The syntax of host names.
private enum HostName {
  static let pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$"

  static func isValid(_ name: String) -> Bool {
    let bytes = Array(name.utf8)
    guard let first = bytes.first, bytes.count <= 253 else { return false }
    return isLetterOrDigit(first)
      && bytes.allSatisfy { isLetterOrDigit($0) || ".-_".utf8.contains($0) }
  }

  private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: false
    }
  }
}

extension TopologyValueType<String> {
  /// The type of a numeric IPv4 address that peers can connect to.
  static var address: Self {
    let byte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    let first = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]?)"
    let kind = Self(
      schema: .orVariable(.pattern("^\(first)(\\.\(byte)){3}$")), writeValue: OrderedValue.text
    ) { reading, place in
      guard let text = place.node.scalar?.text, let address = IPv4Address(text) else {
        reading.refuse(place, wanted: "a numeric IPv4 address, such as 127.0.0.1")
        return nil
      }
      // No address in 0.0.0.0/8 belongs to a host.
      if address.addressBits >> 24 == 0 {
        reading.report(
          .badValue, place,
          "cannot be \(text), to which no process can connect; write the address of a network "
            + "interface")
        return nil
      }
      return text
    }
    return kind.withDefinition("address", "A numeric IPv4 address: 127.0.0.1.")
  }

  /// The type of a place's name.
  static var placeName: Self {
    Self(schema: .orVariable(.reference("nodeName")), writeValue: OrderedValue.text) {
      reading, place in
      guard let text = reading.string(place, hint: "a place's name"),
        reading.checkName(text, allowingDots: false, at: place.node.position, title: place.title)
      else { return nil }
      return text
    }
  }
}

/// The keys that an engine requires in a deployment file, and the keys that it rejects. The reader
/// and the schema both use these rules.
struct EngineKeys {
  /// The keys that have no effect with an engine. The value for each key is advice for the error
  /// message.
  typealias UnsupportedKeys = KeyValuePairs<String, String>

  /// The required keys at the top level.
  var requiredKeys: [String] = []
  var unsupportedKeys: UnsupportedKeys
  /// The keys for a place's address or hosts. A place must have exactly one of these keys.
  let alternativePlaceKeys: [String]
  let unsupportedPlaceKeys: UnsupportedKeys

  static func of(_ engine: Deployment.Engine) -> EngineKeys {
    let remove = "; remove it"
    return switch engine {
    case .local:
      EngineKeys(
        unsupportedKeys: [
          "lease": remove, "image": remove, "namespace": remove, "port": remove, "storage": remove,
        ],
        alternativePlaceKeys: ["address"],
        unsupportedPlaceKeys: ["hosts": remove, "spare": remove, "labels": remove])
    case .slurm:
      EngineKeys(
        unsupportedKeys: ["image": remove, "namespace": remove, "port": remove, "storage": remove],
        alternativePlaceKeys: ["hosts"],
        unsupportedPlaceKeys: ["address": remove, "labels": remove])
    case .kubernetes:
      EngineKeys(
        requiredKeys: ["image"],
        unsupportedKeys: [
          "address": ": each pod has its own address; remove it",
          "journals":
            ": each journal is on a volume claim of its pod; remove it, and write 'storage'",
          "lease": ": nodes do not move to other hosts; remove it",
        ],
        alternativePlaceKeys: ["hosts", "labels"],
        unsupportedPlaceKeys: [
          "address":
            ": each pod has its own address; remove it, and write 'hosts' or 'labels'",
          "spare":
            ": a pod waits for its host; remove it, and list all hosts in 'hosts'",
        ])
    }
  }

  /// Returns the schema rule for files with this engine.
  func rule(of engine: Deployment.Engine) -> JSONValue {
    var condition: [String: JSONValue] = [
      "properties": ["engine": ["enum": [.string(engine.rawValue)]]]
    ]
    if engine != Deployment().engine { condition["required"] = ["engine"] }
    var places: [String: JSONValue] = ["properties": Self.none(of: unsupportedPlaceKeys)]
    if alternativePlaceKeys.count == 1 {
      places["required"] = .texts(alternativePlaceKeys)
    } else {
      places["anyOf"] = .array(alternativePlaceKeys.map { ["required": [.string($0)]] })
      places["not"] = ["required": .texts(alternativePlaceKeys)]
    }
    var properties = unsupportedKeys.map { ($0.key, JSONValue.bool(false)) }
    properties.append(("places", ["additionalProperties": .object(places)]))
    var file: [String: JSONValue] = [
      "properties": .object(Dictionary(properties) { first, _ in first })
    ]
    if !requiredKeys.isEmpty { file["required"] = .texts(requiredKeys) }
    return ["if": .object(condition), "then": .object(file)]
  }

  private static func none(of keys: UnsupportedKeys) -> JSONValue {
    .object(Dictionary(keys.map { ($0.key, false) }) { first, _ in first })
  }
}

extension TopologyReading {
  /// Checks that the deployment and its places have all keys that the engine requires, and no key
  /// that the engine rejects.
  mutating func checkKeys(of deployment: Deployment) {
    let engine = deployment.engine
    let keys = EngineKeys.of(engine)
    for key in keys.requiredKeys where !source.hasValue(at: [key]) {
      report(
        .missingKey, at: [],
        "the deployment has no '\(key)', which engine '\(engine.rawValue)' requires; add it")
    }
    refuse(keys.unsupportedKeys, in: [], of: "the deployment", engine)
    for place in deployment.places {
      let path = ["places", place.name]
      let found = keys.alternativePlaceKeys.filter { source.hasValue(at: path + [$0]) }
      let names = keys.alternativePlaceKeys.map { "'\($0)'" }.joined(separator: " or ")
      if found.isEmpty {
        report(
          .missingKey, at: path,
          "place '\(place.name)' has no \(names), which engine '\(engine.rawValue)' requires; add "
            + "it"
        )
      } else if found.count > 1 {
        report(
          .conflictingKeys, at: source.position(ofKey: path + [found[1]]),
          "place '\(place.name)' has both '\(found[0])' and '\(found[1])', which exclude each "
            + "other; remove one of them"
        )
      }
      refuse(keys.unsupportedPlaceKeys, in: path, of: "place '\(place.name)'", engine)
    }
  }

  private mutating func refuse(
    _ unsupportedKeys: EngineKeys.UnsupportedKeys, in path: [String], of owner: String,
    _ engine: Deployment.Engine
  ) {
    for (key, remedy) in unsupportedKeys where source.hasValue(at: path + [key]) {
      report(
        .conflictingKeys, at: source.position(ofKey: path + [key]),
        "\(owner): '\(key)' has no effect with engine '\(engine.rawValue)'\(remedy)")
    }
  }
}
