import PipeMachines
import PipeWire

/// What the pipes that lead from composites are sent: which states the composites enter, and the events that
/// are made from these.
///
/// A composite enters a state when a synchronized event leads nodes of it there, two or more, and when the
/// step of one of them makes another state of it.
package struct CompositeRules {
  /// An event for a pipe.
  package struct Event: Hashable, Sendable {
    package var pipe: String
    /// As JSON.
    package var event: [UInt8]
  }

  /// A node is in a state that it could not tell.
  package struct UntoldState: Error, CustomStringConvertible {
    package var node: String

    package var description: String {
      "node '\(node)' is in a state that it cannot tell; its log says why"
    }
  }

  private struct Rule {
    let pipe: String
    let when: String?
    let states: [String: String]
    let template: PayloadTemplate
  }

  private struct Composite {
    let plan: CompositePlan
    let projection: CompositeStates.Projection?
    var rules: [Rule] = []
    /// The state that it is in, as JSON; `nil` while some node has not told its own, and where there is
    /// none.
    var state: [UInt8]?
  }

  private var composites: [Composite]

  /// - Parameters:
  ///   - rules: By the names of their pipes.
  ///   - projections: By the names of the composites that have one.
  ///   - nodes: How far the nodes had got.
  package init(
    _ plans: [CompositePlan], rules: [(pipe: String, rule: NodeConfiguration.Rule)],
    projections: [String: CompositeStates.Projection], nodes: [String: CompositeSteps.Node]
  ) throws(PayloadTemplateError) {
    composites = plans.map { Composite(plan: $0, projection: projections[$0.name]) }
    for (pipe, rule) in rules {
      guard let index = composites.firstIndex(where: { $0.plan.name == rule.composite }) else {
        continue
      }
      composites[index].rules.append(
        Rule(
          pipe: pipe, when: rule.when, states: rule.states ?? [:],
          template: try PayloadTemplate(rule.send)))
    }
    composites.removeAll { $0.rules.isEmpty }
    // What cannot be shown is told of when it is entered.
    for index in composites.indices { composites[index].state = try? state(of: index, nodes) }
  }

  /// Nodes have moved at once.
  /// - Parameters:
  ///   - nodes: How far all have got.
  ///   - report: Is told of a composite whose state cannot be made of those of its nodes, and why.
  package mutating func take(
    _ step: CompositeSteps.Step, _ nodes: [String: CompositeSteps.Node],
    report: (_ composite: String, any Error) -> Void
  ) -> [Event] {
    var events: [Event] = []
    for index in composites.indices {
      let movers = composites[index].plan.nodes.count { step.told[$0] != nil }
      guard movers > 0 else { continue }
      let before = composites[index].state
      do {
        composites[index].state = try state(of: index, nodes)
      } catch {
        composites[index].state = nil
        report(composites[index].plan.name, error)
      }
      guard step.isEntry, let state = composites[index].state,
        movers > 1 || state != before
      else { continue }
      events += self.events(of: index, in: state, nodes)
    }
    return events
  }

  private func events(
    of index: Int, in state: [UInt8], _ nodes: [String: CompositeSteps.Node]
  ) -> [Event] {
    let label = Self.label(of: state)
    return composites[index].rules.compactMap { rule in
      let isEntered =
        if let when = rule.when { when == label } else {
          rule.states.allSatisfy { name, when in
            nodes[name]?.state.flatMap { Self.label(of: $0) } == when
          }
        }
      guard isEntered else { return nil }
      // A template takes values of a case's payload: the nodes are that of the tuple.
      let source =
        rule.when == nil ? Array(#"{"states":"#.utf8) + state + [UInt8(ascii: "}")] : state
      return Event(pipe: rule.pipe, event: rule.template.render(state: source))
    }
  }

  /// The name of a state's case.
  private static func label(of state: [UInt8]) -> String? {
    TransactionBody(composite: "", event: state).eventName
  }

  /// - Returns: `nil` while some node has not told its state.
  private func state(
    of index: Int, _ nodes: [String: CompositeSteps.Node]
  ) throws -> [UInt8]? {
    let composite = composites[index]
    var states: [[UInt8]] = []
    for name in composite.plan.nodes {
      guard let node = nodes[name] else { return nil }
      guard let state = node.state else { throw UntoldState(node: name) }
      states.append(state)
    }
    if let projection = composite.projection {
      return try projection(states.map { try JSONValue(parsing: $0) }).bytes
    }
    var bytes = Array("{".utf8)
    for (name, state) in zip(composite.plan.nodes, states) {
      if bytes.count > 1 { bytes.append(UInt8(ascii: ",")) }
      bytes += JSONValue.string(name).bytes + [UInt8(ascii: ":")] + state
    }
    return bytes + [UInt8(ascii: "}")]
  }
}
