import PipeSupport
import PipeWire

extension TopologyReading {
  mutating func nodes(_ place: TopologyPlace, _ names: inout Names) -> [NodeSpecification] {
    let members = namedMembers(of: place, kind: "node", &names)
    if case .mapping(let entries) = place.node.content, entries.isEmpty {
      report(.missingKey, place, "is empty; a topology has at least one node")
    }
    return members.compactMap { node($0.value, name: $0.key) }
  }

  private mutating func node(_ place: TopologyPlace, name: String) -> NodeSpecification? {
    guard let fields = fields(of: place, TopologyKeys.node) else { return nil }
    let content = content(place, fields)
    // Without content, the rest is read for its errors alone.
    var node = NodeSpecification(name: name, content: content ?? .machine(""))
    node.program = fields["program"].flatMap { string($0) }
    if let parameters = fields["parameters"].flatMap({ object($0) }) {
      node.parameters = parameters
    }
    if let place = fields["environment"] { node.environment = environment(place) }
    if let place = fields["restart"] { node.restart = restart(place) }
    if let required = fields["required"].flatMap({ bool($0) }) { node.required = required }
    if let place = fields["depends_on"] { node.dependsOn = dependencies(place) }
    if let place = fields["durability"] { node.durability = durability(place) }
    return content == nil ? nil : node
  }

  private mutating func content(
    _ place: TopologyPlace, _ fields: [String: TopologyPlace]
  ) -> NodeSpecification.Content? {
    let machine = fields["machine"].flatMap { string($0, hint: "a machine's name") }
    if let constant = fields["constant"] {
      if let parameters = fields["parameters"] {
        report(
          .conflictingKeys, at: source.mark(ofKey: parameters.path),
          "\(place.owner) is constant, so it takes no 'parameters'; remove them")
      }
      return caseJSON(constant, noun: "a state").map { .constant($0, machine: machine) }
    }
    if fields["machine"] == nil {
      report(
        .missingKey, at: source.mark(ofKey: place.path),
        "\(place.owner) has neither 'machine' nor 'constant'; add one")
    }
    return machine.map { .machine($0) }
  }

  private mutating func restart(_ place: TopologyPlace) -> RestartPolicy {
    var restart = RestartPolicy()
    let fields = fields(of: place, TopologyKeys.restart) ?? [:]
    if let mode = fields["policy"].flatMap({ choice($0, RestartPolicy.Mode.self) }) {
      restart.mode = mode
    }
    if let max = fields["max"].flatMap({
      integer($0, in: RestartPolicy.maxRange, unit: "restarts")
    }) {
      restart.max = max
    }
    if let window = fields["window"].flatMap({ duration($0) }) { restart.window = window }
    guard let backoff = fields["backoff"],
      let waits = self.fields(of: backoff, TopologyKeys.backoff)
    else { return restart }
    if let initial = waits["initial"].flatMap({ duration($0, zero: true) }) {
      restart.backoff.initial = initial
    }
    if let max = waits["max"].flatMap({ duration($0, zero: true) }) { restart.backoff.max = max }
    if let jitter = waits["jitter"].flatMap({ part($0) }) { restart.backoff.jitter = jitter }
    if restart.backoff.initial > restart.backoff.max {
      report(
        .badValue, backoff,
        "starts at \(DurationText.write(restart.backoff.initial)), above its "
          + "'max' of \(DurationText.write(restart.backoff.max)); lower one or raise the other")
    }
    return restart
  }

  mutating func durability(_ place: TopologyPlace) -> Durability? {
    choice(place, Durability.self)
  }
}
