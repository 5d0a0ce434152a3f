import PipeMachines

/// Something that a search of a topology has found.
package struct ExplorationFinding: Sendable {
  /// What was found. States and events are as JSON.
  package enum Kind: Hashable, Sendable {
    /// Nothing can happen any more, and it is no end.
    case deadlock
    /// Events wait, and only the outside could go on.
    case stuck(pipes: [String])
    /// Each of these nodes waits for room in a pipe that the next one reads.
    case fullPipes([String])
    case deadLetter(
      pipe: String, node: String, event: JSONValue, state: JSONValue, reason: String)
    /// An event is refused that came through a pipe with `on_refused: fail`.
    case fatalRefusal(
      pipe: String, node: String, event: JSONValue, state: JSONValue, reason: String)
    /// A node or a composite has an event that nobody ever gives it where it would take it.
    case neverEnabled(owner: String, event: String)
    case unreachable(node: String, state: String)
    case violated(property: String, ExploredProperty.Demand)
    /// - Parameter event: `nil` where the node does not get through its start.
    case crash(node: String, event: JSONValue?, state: JSONValue, how: String)
    /// One question was answered in two ways.
    case impure(node: String, event: JSONValue, state: JSONValue, answers: [String])
    /// Two states that the file folds into one do not behave alike.
    case brokenFold(
      node: String, field: String, modulo: Int, event: JSONValue?, states: [JSONValue])
    /// A program answers what nobody can use.
    case badAnswer(program: String, problem: String)
    case lateAnswer(program: String, node: String, after: Duration)
  }

  package var kind: Kind
  /// Where in the topology file it belongs, as a path for ``SourceMap``.
  package var path: [String]
  /// How it comes about, in as few steps as possible; `nil` where no steps lead to it.
  package var scenario: Scenario?
  /// Other findings of the same kind, whose events and states have the same labels; the one that is shown was
  /// found first.
  package var similarCount = 0

  package init(_ kind: Kind, at path: [String], scenario: Scenario? = nil) {
    self.kind = kind
    self.path = path
    self.scenario = scenario
  }
}

extension ExplorationFinding {
  /// The kinds of findings; stable, for scripts and for tests.
  package enum Code: String, CaseIterable, Sendable {
    case deadlock, stuck
    case fullPipes = "full-pipes"
    case deadLetter = "dead-letter"
    case fatalRefusal = "fatal-refusal"
    case neverEnabled = "never-enabled"
    case unreachableState = "unreachable-state"
    case violatedProperty = "violated-property"
    case crashingStep = "crashing-step"
    case impureStep = "impure-step"
    case brokenFold = "broken-fold"
    case badAnswer = "bad-answer"
    case lateAnswer = "late-answer"

    /// Whether the topology may run all the same, as with a warning of `check`.
    package var isWarning: Bool { self == .neverEnabled || self == .unreachableState }
  }

  package var code: Code {
    switch kind {
    case .deadlock: .deadlock
    case .stuck: .stuck
    case .fullPipes: .fullPipes
    case .deadLetter: .deadLetter
    case .fatalRefusal: .fatalRefusal
    case .neverEnabled: .neverEnabled
    case .unreachable: .unreachableState
    case .violated: .violatedProperty
    case .crash: .crashingStep
    case .impure: .impureStep
    case .brokenFold: .brokenFold
    case .badAnswer: .badAnswer
    case .lateAnswer: .lateAnswer
    }
  }
}
