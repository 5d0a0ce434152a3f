import PipeMachines
import PipeSupport
import PipeWire

extension TopologyReading {
  /// The pipes that could be read, each with its index in the file.
  mutating func pipes(_ place: TopologyPlace) -> [(index: Int, pipe: PipeSpecification)] {
    guard let elements = elements(of: place, hint: "a list of pipes") else { return [] }
    return elements.enumerated().compactMap { index, element in
      pipe(element, number: index + 1).map { (index, $0) }
    }
  }

  private mutating func pipe(_ place: TopologyPlace, number: Int) -> PipeSpecification? {
    var place = place.named("pipe \(number)")
    guard let fields = fields(of: place, TopologyKeys.pipe) else { return nil }
    let name = fields["name"].flatMap { pipeName($0) }
    if let name { place.owner = "pipe '\(name)'" }
    let from = fields["from"].flatMap { end($0) }
    let to = fields["to"].flatMap { end($0) }
    let source = from.flatMap { self.pipeSource(place, fields, from: $0) }
    let capacity = fields["capacity"].flatMap {
      integer($0, in: PipeSpecification.capacityRange, unit: "events")
    }
    let onRefused = fields["on_refused"].flatMap { choice($0, PipeSpecification.OnRefused.self) }
    let durability = fields["durability"].flatMap { self.durability($0) }
    guard let from, let to, let source else { return nil }
    let pipe = PipeSpecification(
      sender: from.node, source: source, receiver: to.node, inPort: to.port, name: name,
      capacity: capacity ?? 1024, onRefused: onRefused ?? .record, durability: durability)
    guard fields["name"] != nil || Self.isPipeName(pipe.name) else {
      report(
        .badName, place,
        "would be called '\(pipe.name)'; a pipe's name has 1 to 128 characters without spaces: correct "
          + "its ends, or give it a 'name'")
      return nil
    }
    return pipe
  }

  private mutating func pipeName(_ place: TopologyPlace) -> String? {
    guard let name = string(place, hint: "a name") else { return nil }
    if Self.isPipeName(name) { return name }
    report(.badName, place, "must be 1 to 128 characters without spaces, not \(place.node.summary)")
    return nil
  }

  /// A name is part of the sender's at the receiver's socket.
  private static func isPipeName(_ name: String) -> Bool {
    (1...128).contains(name.utf8.count) && name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }
  }

  /// `node` or `node.port`.
  private mutating func end(_ place: TopologyPlace) -> (node: String, port: String?)? {
    guard let text = string(place, hint: "NODE or NODE.PORT") else { return nil }
    let (node, port) = PipeSpecification.split(text)
    guard !node.isEmpty, port?.isEmpty != true else {
      report(.badName, place, "must be NODE or NODE.PORT, not '\(text)'")
      return nil
    }
    return (node, port)
  }

  private mutating func pipeSource(
    _ place: TopologyPlace, _ fields: [String: TopologyPlace], from: (node: String, port: String?)
  ) -> PipeSpecification.Source? {
    let when = fields["when"].flatMap { string($0, hint: "a state's name") }
    let send = fields["send"].flatMap { template($0) }
    if let port = from.port {
      guard let extra = fields["when"] ?? fields["send"] else { return .port(port) }
      report(
        .conflictingKeys, at: source.mark(ofKey: extra.path),
        "\(place.owner) starts at out-port '\(port)', which sends by itself; remove 'when' and "
          + "'send', or the port from 'from'")
      return nil
    }
    guard fields["when"] != nil || fields["send"] != nil else {
      report(
        .missingKey, at: source.mark(of: place.path + ["from"]),
        "\(place.owner) starts at node '\(from.node)' itself; write an out-port as "
          + "'\(from.node).PORT', or add 'when: STATE' and 'send: EVENT'")
      return nil
    }
    for key in ["when", "send"] where fields[key] == nil {
      report(
        .missingKey, at: place.node.mark,
        "\(place.owner) has no '\(key)'; a rule has both 'when: STATE' and 'send: EVENT'")
    }
    guard let when, let send else { return nil }
    return .state(when, send: send)
  }

  private mutating func template(_ place: TopologyPlace) -> JSONValue? {
    guard let json = caseJSON(place, noun: "an event") else { return nil }
    do {
      _ = try PayloadTemplate(json)
      return json
    } catch {
      report(.badTemplate, place, error.description)
      return nil
    }
  }
}
