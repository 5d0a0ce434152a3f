import PipeMachines

/// The state chart of a machine: its states, and the known transitions between them.
package struct StateChart: Hashable, Sendable {
  /// A state of the chart. It stands for all of the machine's states with this name, whatever their
  /// values are.
  package struct State: Hashable, Sendable {
    /// The name, unique among the states.
    package var name: String
    /// The name and type of each value: `persons: Int`.
    package var fields: [String]
    /// Whether the search has reached the state from the initial state.
    package var isReached: Bool

    package init(_ name: String, fields: [String] = [], isReached: Bool = true) {
      self.name = name
      self.fields = fields
      self.isReached = isReached
    }
  }

  /// The reason why a transition is uncertain.
  package enum UncertaintyReason: String, Hashable, Sendable, CaseIterable {
    /// The transition depends on a guard or a function. With other values, the event may be
    /// refused, or lead to another state.
    case dependsOnValues
    /// Of the values that were tried, only one caused the transition, and not all values were
    /// tried.
    case seenOnce
    /// The event was not tried, because a field has no sample value.
    case noSample
    /// The transition is asynchronous, so the target is known only when the transition runs.
    case asynchronous
    /// The program ended, or did not answer in time, when the event was tried.
    case noAnswer
  }

  package struct Transition: Hashable, Sendable {
    package var source: String
    package var event: String
    /// The name of the target state; `nil` if the target is unknown.
    package var target: String?
    /// The kind of the transition. An internal transition and an ignored event have their source as
    /// the target.
    package var kind: TransitionKind
    package var uncertaintyReason: UncertaintyReason?
    /// Whether a guard refuses the event for some of the values that were tried.
    package var isGuarded: Bool

    package init(
      _ source: String, _ event: String, _ target: String?, _ kind: TransitionKind = .external,
      uncertaintyReason: UncertaintyReason? = nil, isGuarded: Bool = false
    ) {
      self.source = source
      self.event = event
      self.target = target
      self.kind = kind
      self.uncertaintyReason = uncertaintyReason
      self.isGuarded = isGuarded
    }
  }

  /// The name of the node.
  package var name: String
  package var machine: String?
  package var initialState: String?
  package var states: [State]
  package var transitions: [Transition]
  /// Notes for the reader, in sentences.
  package var notes: [String]

  package init(
    name: String, machine: String? = nil, initial: String? = nil, states: [State] = [],
    transitions: [Transition] = [], notes: [String] = []
  ) {
    self.name = name
    self.machine = machine
    self.initialState = initial
    self.states = states
    self.transitions = transitions
    self.notes = notes
  }

  /// The names of the reached states from which no known external transition leads.
  package var finalStates: Set<String> {
    Set(states.filter(\.isReached).map(\.name))
      .subtracting(transitions.lazy.filter { $0.kind == .external }.map(\.source))
  }
}

extension StateChart {
  /// Returns the state chart as a graph.
  /// - Parameters:
  ///   - current: The name of the node's current state.
  ///   - text: A readable form of the current state, with its values.
  package func graph(current: String? = nil, text: String? = nil) -> Graph {
    var states = states
    if let current, !states.contains(where: { $0.name == current }) {
      states.append(State(current, isReached: false))
    }
    var graph = Graph(title: machine.map { "\(name): \($0)" } ?? name, notes: notes)
    let finalStates = finalStates
    graph.nodes = states.map { state in
      var marks: Set<Graph.Mark> = []
      if state.name == initialState { marks.insert(.initial) }
      if finalStates.contains(state.name) { marks.insert(.final) }
      if !state.isReached { marks.insert(.unreached) }
      var lines = [state.name] + state.fields
      if state.name == current {
        marks.insert(.current)
        if let text, text != state.name { lines = [state.name, text] }
      }
      lines += internalLines(of: state.name)
      return Graph.Node(state.name, .state, lines: lines, marks: marks)
    }
    for transition in transitions where transition.kind == .external {
      // Each state gets its own box for unknown targets. With a single box, all lines to unknown
      // targets would end at that box.
      let unknown = "\(transition.source) ?"
      if transition.target == nil, !graph.nodes.contains(where: { $0.id == unknown }) {
        graph.nodes.append(Graph.Node(unknown, .unknown, lines: ["?"]))
      }
      graph.edges.append(
        Graph.Edge(
          transition.source, transition.target ?? unknown, .transition, labels: [transition.label],
          isCertain: transition.uncertaintyReason == nil))
    }
    return graph
  }

  /// Returns the lines about a state's internal transitions and ignored events, which UML shows in
  /// the state's box: a line for each internal transition, and a line with the ignored events.
  private func internalLines(of state: String) -> [String] {
    let own = transitions.filter { $0.source == state }
    let ignored = own.filter { $0.kind == .ignored }.map(\.label)
    return own.filter { $0.kind == .internal }.map { "\($0.label) / stay" }
      + (ignored.isEmpty ? [] : ["ignore: \(ignored.joined(separator: ", "))"])
  }
}

extension StateChart.Transition {
  /// The event, and the reason why the transition is uncertain, such as `go [guard]` or `load
  /// [asynchronous]`.
  var label: String {
    let uncertaintyText: String? =
      switch uncertaintyReason {
      case .dependsOnValues: isGuarded ? "guard" : "by values"
      case .asynchronous: "asynchronous"
      case .noSample: "no value to try"
      case .noAnswer: "no answer"
      case .seenOnce, nil: nil
      }
    return uncertaintyText.map { "\(event) [\($0)]" } ?? event
  }
}

extension StateChart {
  /// A line of text for each transition, such as `open --close [guard]--> closed`. The arrow of an
  /// uncertain transition is dotted. An internal transition ends at `stay`, and an ignored event at
  /// `ignore`.
  package var lines: [String] {
    transitions.map { transition in
      let lineStyle = transition.uncertaintyReason == nil ? "--" : ".."
      let target =
        switch transition.kind {
        case .external: transition.target ?? "?"
        case .internal: "stay"
        case .ignored: "ignore"
        }
      return "\(transition.source) \(lineStyle)\(transition.label)\(lineStyle)> \(target)"
    }
  }

  /// The state chart as JSON.
  package var json: JSONValue {
    [
      "node": .string(name), "machine": .optional(machine), "initial": .optional(initialState),
      "states": .array(
        states.map {
          [
            "name": .string($0.name), "fields": .texts($0.fields), "isReached": .bool($0.isReached),
            "isEnd": .bool(finalStates.contains($0.name)),
          ]
        }),
      "transitions": .array(
        transitions.map {
          [
            "from": .string($0.source), "event": .string($0.event), "to": .optional($0.target),
            "kind": .string($0.kind.rawValue),
            "isGuarded": .bool($0.isGuarded), "doubt": .optional($0.uncertaintyReason?.rawValue),
          ]
        }),
      "notes": .texts(notes),
    ]
  }
}
