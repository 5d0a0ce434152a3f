import PipeMachines

extension StateChart {
  /// Each transition in a line: `open --close [guard]--> closed`, with dots where it is not certain.
  package var lines: [String] {
    transitions.map { transition in
      let stroke = transition.doubt == nil ? "--" : ".."
      return
        "\(transition.source) \(stroke)\(transition.label)\(stroke)> \(transition.target ?? "?")"
    }
  }

  /// All of it, as programs read it.
  package var json: JSONValue {
    [
      "node": .string(name), "machine": .optional(machine), "initial": .optional(initial),
      "states": .array(
        states.map {
          [
            "name": .string($0.name), "fields": .texts($0.fields), "isReached": .bool($0.isReached),
            "isEnd": .bool(finals.contains($0.name)),
          ]
        }),
      "transitions": .array(
        transitions.map {
          [
            "from": .string($0.source), "event": .string($0.event), "to": .optional($0.target),
            "isGuarded": .bool($0.isGuarded), "doubt": .optional($0.doubt?.rawValue),
          ]
        }),
      "notes": .texts(notes),
    ]
  }
}
