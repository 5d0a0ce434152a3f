import PipeMachines

/// The state chart of a machine: its known transitions in each state.
package struct StateChart: Hashable, Sendable {
  /// The states with the same name, whatever their values are.
  package struct State: Hashable, Sendable {
    /// The name, unique among the states.
    package var name: String
    /// The values of the state, by name and type: `persons: Int`.
    package var fields: [String]
    /// Whether the search reached the state.
    package var isReached: Bool

    package init(_ name: String, fields: [String] = [], isReached: Bool = true) {
      self.name = name
      self.fields = fields
      self.isReached = isReached
    }
  }

  /// The reason why a transition is uncertain.
  package enum UncertaintyReason: String, Hashable, Sendable, CaseIterable {
    /// A guard or a function decides: with other values, there is no transition, or another target.
    case dependsOnValues
    /// The transition was seen once, but there are more values to try.
    case seenOnce
    /// No value is known to try the event with.
    case noSample
    /// The transition is asynchronous, so only a run can show its target.
    case asynchronous
    /// The program ended, or did not answer.
    case noAnswer
  }

  package struct Transition: Hashable, Sendable {
    package var source: String
    package var event: String
    /// The target; `nil` if it is unknown.
    package var target: String?
    package var doubt: UncertaintyReason?
    /// Whether a guard refuses the event with some of the tried values.
    package var isGuarded: Bool

    package init(
      _ source: String, _ event: String, _ target: String?, doubt: UncertaintyReason? = nil,
      isGuarded: Bool = false
    ) {
      self.source = source
      self.event = event
      self.target = target
      self.doubt = doubt
      self.isGuarded = isGuarded
    }
  }

  /// The name of the node.
  package var name: String
  package var machine: String?
  package var initial: String?
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
    self.initial = initial
    self.states = states
    self.transitions = transitions
    self.notes = notes
  }

  /// The reached states without a known transition out of them.
  package var finalStates: Set<String> {
    Set(states.filter(\.isReached).map(\.name)).subtracting(transitions.map(\.source))
  }
}

extension StateChart {
  /// Returns the chart as a graph.
  /// - Parameters:
  ///   - current: The current state of the node.
  ///   - text: A readable form of that state, with its values.
  package func graph(current: String? = nil, text: String? = nil) -> Graph {
    var states = states
    if let current, !states.contains(where: { $0.name == current }) {
      states.append(State(current, isReached: false))
    }
    var graph = Graph(title: machine.map { "\(name): \($0)" } ?? name, notes: notes)
    let finalStates = finalStates
    graph.nodes = states.map { state in
      var marks: Set<Graph.Mark> = []
      if state.name == initial { marks.insert(.initial) }
      if finalStates.contains(state.name) { marks.insert(.final) }
      if !state.isReached { marks.insert(.unreached) }
      var lines = [state.name] + state.fields
      if state.name == current {
        marks.insert(.current)
        if let text, text != state.name { lines = [state.name, text] }
      }
      return Graph.Node(state.name, .state, lines: lines, marks: marks)
    }
    for transition in transitions {
      // Each state has its own box for unknown targets; otherwise all lines would end at one box.
      let unknown = "\(transition.source) ?"
      if transition.target == nil, !graph.nodes.contains(where: { $0.id == unknown }) {
        graph.nodes.append(Graph.Node(unknown, .unknown, lines: ["?"]))
      }
      graph.edges.append(
        Graph.Edge(
          transition.source, transition.target ?? unknown, .transition, labels: [transition.label],
          isCertain: transition.doubt == nil))
    }
    return graph
  }
}

extension StateChart.Transition {
  /// The event with the reason for a doubt: `go [guard]`, `load [asynchronous]`.
  var label: String {
    let why: String? =
      switch doubt {
      case .dependsOnValues: isGuarded ? "guard" : "by values"
      case .asynchronous: "asynchronous"
      case .noSample: "no value to try"
      case .noAnswer: "no answer"
      case .seenOnce, nil: nil
      }
    return why.map { "\(event) [\($0)]" } ?? event
  }
}

extension StateChart {
  /// One line for each transition: `open --close [guard]--> closed`, with dots if it is uncertain.
  package var lines: [String] {
    transitions.map { transition in
      let lineStyle = transition.doubt == nil ? "--" : ".."
      return
        "\(transition.source) \(lineStyle)\(transition.label)\(lineStyle)> \(transition.target ?? "?")"
    }
  }

  /// The chart as JSON.
  package var json: JSONValue {
    [
      "node": .string(name), "machine": .optional(machine), "initial": .optional(initial),
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
            "isGuarded": .bool($0.isGuarded), "doubt": .optional($0.doubt?.rawValue),
          ]
        }),
      "notes": .texts(notes),
    ]
  }
}
