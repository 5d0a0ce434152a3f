import PipeRuntime

/// All that `describe` tells of one composite.
struct CompositePage {
  let composite: CompositePlan
  let group: ConflictClassPlan
  /// How it is; `nil` where it need not run.
  var node: NodeInformation?
  /// The topology's pipes.
  var pipes: [PipeInformation] = []

  /// The pages of all composites of some classes.
  static func all(of classes: [ConflictClassPlan]) -> [CompositePage] {
    classes.flatMap { group in group.composites.map { CompositePage(composite: $0, group: group) } }
  }

  var name: String { composite.name }

  /// A heading, then a line or more for each thing that is known.
  func lines(_ style: Style) -> [String] {
    let others = group.composites.map(\.name).filter { $0 != name }
    var parts = [
      ("composite", ["program \(group.program)"]),
      ("components", [composite.components.joined(separator: ", ")]),
      (
        "nodes",
        composite.nodes == composite.components ? [] : [composite.nodes.joined(separator: ", ")]
      ),
      ("synchronizes", vectors), ("passes on", ownEvents),
      ("mode", ["rendezvous: all or none; a caller may ask for broadcast instead"]),
      ("projection", [composite.projection ?? "none: the list of the nodes' states"]),
      (
        "coordinator",
        [
          (others.isEmpty ? "its own" : "shared with \(others.joined(separator: ", "))")
            + (group.host.map { ", within \($0)" } ?? "")
        ]
      ),
    ]
    if let node {
      parts += [
        ("durability", [node.durability.rawValue, node.journal].compactMap(\.self)),
        ("in doubt", node.doubts.map { $0.wording(since: style.time) }),
      ]
      parts += NodePage(node: node, machine: nil, pipes: pipes).traffic
    }
    return [heading(style)] + style.lines(of: parts, labelWidth: 12)
  }

  private func heading(_ style: Style) -> String {
    guard let node else { return style.bold(name) }
    return NodePage(node: node, machine: nil, pipes: []).heading(style)
  }

  /// `go(floor: Int)  door, motor`
  private var vectors: [String] {
    let width = composite.events.map { $0.signature.count }.max() ?? 0
    return zip(composite.events, composite.vectors).map { event, vector in
      let through = vector.composite == name ? "" : ", through \(vector.composite)"
      return event.signature.padded(to: width) + "  "
        + vector.participants.joined(separator: ", ") + through
    }
  }

  /// `close  door`
  private var ownEvents: [String] {
    let width = composite.own.keys.map(\.count).max() ?? 0
    return composite.own.sorted { $0.key < $1.key }
      .map { $0.key.padded(to: width) + "  " + $0.value }
  }

  /// The JSON form.
  var record: JSONValue {
    let plan = (try? JSONValue(encoding: composite)) ?? .null
    return [
      "composite": .string(name), "description": plan, "coordinator": .string(group.name),
      "within": .optional(group.host), "program": .string(group.program),
      "modes": ["rendezvous", "broadcast"],
      "conflictClass": .array(group.composites.map { .string($0.name) }),
      "status": node?.record(now: WallClock.nanoseconds) ?? .null,
    ]
  }
}
