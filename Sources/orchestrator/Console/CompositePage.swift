import PipeRuntime

/// All that `describe` tells of one composite.
package struct CompositePage {
  let composite: CompositePlan
  let group: ConflictClassPlan
  /// How it is; `nil` where it need not run.
  let node: NodeInformation?
  /// The topology's pipes.
  let pipes: [PipeInformation]

  package init(
    _ composite: CompositePlan, in group: ConflictClassPlan, node: NodeInformation? = nil,
    pipes: [PipeInformation] = []
  ) {
    self.composite = composite
    self.group = group
    self.node = node
    self.pipes = pipes
  }

  /// The pages of all composites of some classes.
  package static func all(of classes: [ConflictClassPlan]) -> [CompositePage] {
    classes.flatMap { group in group.composites.map { CompositePage($0, in: group) } }
  }

  var name: String { composite.name }

  /// A heading, then a line or more for each thing that is known.
  package func lines(style: Style = Style(isColored: false)) -> [String] {
    var lines = [heading(style)]
    func add(_ label: String, _ values: [String]) {
      for (index, value) in values.enumerated() {
        let heading = (index == 0 ? label : "").padded(to: 12)
        lines.append("  \(style.dim(heading))  \(value.printable)")
      }
    }
    add("composite", ["program \(group.program)"])
    add("components", [composite.components.joined(separator: ", ")])
    if composite.nodes != composite.components {
      add("nodes", [composite.nodes.joined(separator: ", ")])
    }
    add("synchronizes", vectors)
    add("mode", ["rendezvous: all or none; a caller may ask for broadcast instead"])
    add("projection", [composite.projection ?? "none: the list of the nodes' states"])
    let others = group.composites.map(\.name).filter { $0 != name }
    let sharing = others.isEmpty ? "its own" : "shared with \(others.joined(separator: ", "))"
    add("coordinator", [sharing])
    if let node {
      add("durability", [node.durability.rawValue, node.journal].compactMap(\.self))
      add("in doubt", node.doubts.map { $0.wording(since: style.time) })
      let page = NodePage(node: node, machine: nil, pipes: pipes)
      for (label, values) in page.traffic { add(label, values) }
    }
    return lines
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

  /// The JSON form.
  package var record: JSONValue {
    let plan = (try? JSONValue(encoding: composite)) ?? .null
    return [
      "composite": .string(name), "description": plan, "coordinator": .string(group.name),
      "program": .string(group.program), "modes": ["rendezvous", "broadcast"],
      "conflictClass": .array(group.composites.map { .string($0.name) }),
      "status": node?.record(now: WallClock.nanoseconds) ?? .null,
    ]
  }
}
