import PipeMachines
import PipeSupport
import PipeWire

/// The keys of scenario files, described as those of topology files are.
package enum ScenarioKeys {
  /// The tables of docs/EXPLORE.md, by their headings.
  package static let tables = [("A scenario", top.lines), ("A step", step.lines)]

  static let top = TopologyMapping(
    meaning: "Steps of a topology, and what is expected of them.",
    start: Scenario(name: "", topology: ""),
    keys: [
      TopologyKey("scenario", \.name, .name, "The scenario's name", isNeeded: true),
      TopologyKey(
        "topology", \.topology, .text("a path"),
        "The topology file: a path from the scenario's directory", isNeeded: true),
      TopologyKey(
        "shows", \.shows, .text, "What it was written for: a property, or the code of a finding",
        standard: "nothing"),
      TopologyKey(
        "steps", \.entries, .list(of: "step", step), "The steps, in their order", standard: "none"),
      TopologyKey(
        "end", \.end, .statesByNode,
        "The states of nodes after the last step: `{ NODE: STATE }`. Others are not compared",
        standard: "none"),
      TopologyKey(
        "pipes", \.pipes, .eventsByPipe,
        "What pipes hold after the last step: `{ PIPE: [EVENT, …] }`, the next one to be taken "
          + "first. Others are not compared",
        standard: "none"),
    ])

  static let step = TopologyMapping(
    meaning: "One step, and what is expected of it.",
    start: ScenarioEntry(),
    keys: [
      TopologyKey(
        "at", \.at, .text("a node's name"), "The node that takes an event, or the composite"),
      TopologyKey(
        "takes", \.takes, .state, "The event: a label, or `{ label: { field: value } }`"),
      TopologyKey(
        "from", \.from, .origin,
        "Where it comes from: `outside`, `{ pipe: NAME }`, `{ effect: OUTPUT }`, or for a "
          + "composite `{ effect: OUTPUT, of: NODE }`",
        standard: "`outside`"),
      TopologyKey(
        "sends", \.sends, .state,
        "Instead of `takes`: a node under `any` sends this event"),
      TopologyKey("into", \.into, .text("a pipe's name"), "With `sends`: the pipe"),
      TopologyKey(
        "ends", \.ends, .text("an output's name"),
        "Instead of `takes`: this effect of the node is over, and has given no event"),
      TopologyKey(
        "crash", \.crash, .text("a node's name"),
        "Instead of `at` and `takes`: the process of this node is killed. It is not replayed in "
          + "one process"),
      TopologyKey(
        "expect", \.expect, .expectation,
        "The states of nodes after the step, `{ NODE: STATE }`; or `crash`, where the step ends "
          + "the process",
        standard: "that it is taken"),
      TopologyKey(
        "refused", \.refused, .refusal,
        "That the event is refused: the reason, or `{ NODE: REASON }`. Reasons are `noTransition`, "
          + "`guard`, `thrown`, `asynchronous`, `overdue`, `stateTooLarge` and `undecodable`"),
    ]
  ) { reading, fields, entry in
    reading.complete(entry, fields)
  }
}

/// The keys of one step.
struct ScenarioEntry: Sendable {
  enum Expectation: Sendable {
    case states([String: JSONValue])
    case crash
  }

  struct Refused: Sendable {
    var node: String?
    var reason: String

    /// The reasons that a file may name.
    static let reasons = [
      "noTransition", "guard", "thrown", "asynchronous", "overdue", "undecodable",
    ]

    /// The word for a reason that may have a text behind it.
    static func word(for reason: String) -> String {
      reasons.first { reason == $0 || reason.hasPrefix($0 + ":") } ?? "undecodable"
    }
  }

  var at: String?
  var takes: JSONValue?
  var from: ScenarioStep.Origin?
  var sends: JSONValue?
  var into: String?
  var ends: String?
  var crash: String?
  var expect: Expectation?
  var refused: Refused?

  init() {}

  init(_ step: ScenarioStep) {
    switch step.action {
    case .crash(let node): crash = node
    case .sends(let node, let event, let pipe): (at, sends, into) = (node, event, pipe)
    case .ends(let node, let effect): (at, ends) = (node, effect)
    case .takes(let owner, let event, .effect(let node, let output)) where node == owner:
      (at, takes, from) = (owner, event, .effect(node: "", output: output))
    case .takes(let owner, let event, let origin): (at, takes, from) = (owner, event, origin)
    }
    switch step.outcome {
    case .states(let states): expect = states.isEmpty ? nil : .states(states)
    case .processEnds: expect = .crash
    case .refused(let node, let reason):
      refused = Refused(node: node, reason: Refused.word(for: reason ?? ""))
    }
  }

  /// The step; its keys were checked.
  var step: ScenarioStep? {
    let outcome: ScenarioStep.Outcome =
      if let refused {
        .refused(node: refused.node, reason: refused.reason)
      } else {
        switch expect {
        case .states(let states): .states(states)
        case .crash: .processEnds
        case nil: .states([:])
        }
      }
    if let crash { return ScenarioStep(.crash(node: crash), outcome) }
    guard let at else { return nil }
    if let sends, let into {
      return ScenarioStep(.sends(node: at, event: sends, into: into), outcome)
    }
    if let ends { return ScenarioStep(.ends(node: at, effect: ends), outcome) }
    guard let takes else { return nil }
    return ScenarioStep(.takes(owner: at, event: takes, from: origin(at: at)), outcome)
  }

  /// An effect belongs to the node that takes its event, where no other one is named.
  private func origin(at owner: String) -> ScenarioStep.Origin {
    if case .effect("", let output) = from { return .effect(node: owner, output: output) }
    return from ?? .outside
  }
}

extension Scenario {
  var entries: [ScenarioEntry] {
    get { steps.map { ScenarioEntry($0) } }
    set { steps = newValue.compactMap(\.step) }
  }
}

extension TopologyReading {
  fileprivate mutating func complete(_ entry: ScenarioEntry, _ fields: TopologyFields) -> Bool {
    let place = fields.place
    if let crash = fields["crash"] {
      if has(["at", "takes", "from", "ends", "refused"], beside: crash, "crash", fields) {
        return false
      }
      return fields.read.contains("crash")
    }
    if let sends = fields["sends"], fields["at"] != nil {
      if has(["takes", "from", "refused", "ends"], beside: sends, "sends", fields) { return false }
      if fields["into"] == nil {
        report(.missingKey, place, "has no 'into'; a step has both 'sends: EVENT' and 'into: PIPE'")
        return false
      }
      return fields.read.isSuperset(of: ["at", "sends", "into"])
    }
    if let ends = fields["ends"], fields["at"] != nil {
      if has(["takes", "from", "refused"], beside: ends, "ends", fields) { return false }
      return fields.read.isSuperset(of: ["at", "ends"])
    }
    for key in ["at", "takes"] where fields[key] == nil {
      report(
        .missingKey, place,
        "has no '\(key)'; a step has both 'at: NODE' and 'takes: EVENT', or 'crash: NODE'")
      return false
    }
    if let refused = fields["refused"], fields["expect"] != nil {
      report(
        .conflictingKeys, at: source.mark(ofKey: refused.path),
        "\(place.owner) has both 'expect' and 'refused'; a refused event changes no state: remove "
          + "one")
      return false
    }
    return fields.read.isSuperset(of: ["at", "takes"])
  }

  /// Tells the first of some keys that stands beside one which it contradicts.
  private mutating func has(
    _ keys: [String], beside place: TopologyPlace, _ key: String, _ fields: TopologyFields
  ) -> Bool {
    guard let other = keys.first(where: { fields[$0] != nil }) else { return false }
    report(
      .conflictingKeys, at: source.mark(ofKey: place.path),
      "\(fields.place.owner) has both '\(key)' and '\(other)'; make two steps of it")
    return true
  }
}
