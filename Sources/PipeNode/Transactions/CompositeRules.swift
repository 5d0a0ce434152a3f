import PipeMachines
import PipeWire

/// The rules of pipes that start at composites. A rule matches when a composite enters a certain
/// state, and then creates an event from the state.
///
/// A composite enters a state in two cases: a synchronized event makes several of its nodes enter a
/// state, or a single node enters a state and thereby changes the state of the composite. A
/// composite does not enter a state when a step only changes the values of the nodes' states.
package struct CompositeRules {
  /// An event to send through a pipe.
  package struct Event: Hashable, Sendable {
    package var pipe: String
    /// The event as JSON.
    package var event: [UInt8]
  }

  /// The error for a composite whose state cannot be computed, because a node could not report its
  /// own state.
  package struct UnreportedStateError: Error, CustomStringConvertible {
    package var node: String

    package var description: String {
      "node '\(node)' cannot report its state; check the log of node '\(node)'"
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
    /// The state of the composite as JSON; `nil` while a node has not reported its own state, or if
    /// the state cannot be computed.
    var state: [UInt8]?
  }

  private var composites: [Composite]

  /// - Parameters:
  ///   - rules: The rules, each with the name of its pipe.
  ///   - projections: The projections, by the names of the composites that have a composite state.
  ///   - nodes: The recorded progress of the nodes, by name.
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
    // If the state of a composite cannot be computed now, the error is reported when the composite
    // enters the next state.
    for index in composites.indices { composites[index].state = try? state(of: index, nodes) }
  }

  /// Applies a step of one or more nodes, and returns the events that the matching rules create.
  /// - Parameters:
  ///   - nodes: The progress of all nodes.
  ///   - report: Called with the name of a composite whose state cannot be computed from its nodes'
  ///     states, and with the reason.
  package mutating func take(
    _ step: CompositeSteps.Step, _ nodes: [String: CompositeSteps.Node],
    report: (_ composite: String, any Error) -> Void
  ) -> [Event] {
    var events: [Event] = []
    for index in composites.indices {
      let reports = composites[index].plan.nodes.compactMap { step.reported[$0] }
      guard !reports.isEmpty else { continue }
      let enteringNodeCount = reports.count(where: \.isEntry)
      let previousState = composites[index].state
      do {
        composites[index].state = try state(of: index, nodes)
      } catch {
        composites[index].state = nil
        report(composites[index].plan.name, error)
      }
      guard step.isEntry, enteringNodeCount > 0, let state = composites[index].state,
        enteringNodeCount > 1 || state != previousState
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
      // An event template reads values from the payload of an enum case. If the state of the
      // composite is a tuple of the nodes' states, the tuple serves as the payload, and the names
      // of the nodes are the names of its fields.
      let source =
        rule.when == nil ? Array(#"{"states":"#.utf8) + state + [UInt8(ascii: "}")] : state
      return Event(pipe: rule.pipe, event: rule.template.render(state: source))
    }
  }

  /// Returns the name of a state's case; `nil` if the state is not an enum case.
  private static func label(of state: [UInt8]) -> String? {
    TransactionBody(composite: "", event: state).eventName
  }

  /// Returns the state of a composite as JSON; `nil` if a node has not reported its state yet.
  private func state(
    of index: Int, _ nodes: [String: CompositeSteps.Node]
  ) throws -> [UInt8]? {
    let composite = composites[index]
    var states: [[UInt8]] = []
    for name in composite.plan.nodes {
      guard let node = nodes[name] else { return nil }
      guard let state = node.state else { throw UnreportedStateError(node: name) }
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
