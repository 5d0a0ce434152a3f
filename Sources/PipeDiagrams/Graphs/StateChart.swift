import PipeMachines

/// What a machine does in each of its states, as far as it is known.
package struct StateChart: Hashable, Sendable {
  /// States that are alike but for their values.
  package struct State: Hashable, Sendable {
    /// Unique among the states.
    package var name: String
    /// The values that it carries, by their names and types: `persons: Int`.
    package var fields: [String]
    /// Whether what was tried led there.
    package var isReached: Bool

    package init(_ name: String, fields: [String] = [], isReached: Bool = true) {
      self.name = name
      self.fields = fields
      self.isReached = isReached
    }
  }

  /// Why a transition is not certain.
  package enum Doubt: String, Hashable, Sendable, CaseIterable {
    /// For other values there is no transition, or another target: a guard, or a function, decides.
    case dependsOnValues
    /// It was seen once, with values of which there are more.
    case seenOnce
    /// There is no value to try the event with.
    case noSample
    /// Only a run would tell.
    case asynchronous
    /// The program ended, or did not answer.
    case noAnswer
  }

  package struct Transition: Hashable, Sendable {
    package var source: String
    package var event: String
    /// `nil` where it is not known.
    package var target: String?
    package var doubt: Doubt?
    /// Whether a guard refuses it for some of the values that were tried.
    package var isGuarded: Bool

    package init(
      _ source: String, _ event: String, _ target: String?, doubt: Doubt? = nil,
      isGuarded: Bool = false
    ) {
      self.source = source
      self.event = event
      self.target = target
      self.doubt = doubt
      self.isGuarded = isGuarded
    }
  }

  /// The node.
  package var name: String
  package var machine: String?
  package var initial: String?
  package var states: [State]
  package var transitions: [Transition]
  /// What is to be known about it, in sentences.
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

  /// The states that nothing leads out of, as far as it is known.
  package var finals: Set<String> {
    Set(states.filter(\.isReached).map(\.name)).subtracting(transitions.map(\.source))
  }
}

extension StateChart {
  /// The picture.
  /// - Parameters:
  ///   - current: The state that the node is in now.
  ///   - text: That state with its values, for a person.
  package func graph(current: String? = nil, text: String? = nil) -> Graph {
    var states = states
    if let current, !states.contains(where: { $0.name == current }) {
      states.append(State(current, isReached: false))
    }
    var graph = Graph(title: machine.map { "\(name): \($0)" } ?? name, notes: notes)
    let finals = finals
    graph.nodes = states.map { state in
      var marks: Set<Graph.Mark> = []
      if state.name == initial { marks.insert(.initial) }
      if finals.contains(state.name) { marks.insert(.final) }
      if !state.isReached { marks.insert(.unreached) }
      var lines = [state.name] + state.fields
      if state.name == current {
        marks.insert(.current)
        if let text, text != state.name { lines = [state.name, text] }
      }
      return Graph.Node(state.name, .state, lines: lines, marks: marks)
    }
    for transition in transitions {
      // Each state has an unknown of its own, or all lines would meet in one.
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
  /// `go [guard]`, `load [asynchronous]`
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
