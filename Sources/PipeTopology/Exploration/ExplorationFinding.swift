import PipeMachines
import PipeSupport
import PipeWire

/// An error or warning that the model checker has found in a topology.
package struct ExplorationFinding: Sendable {
  /// The kind of a finding, with its details. States and events are JSON.
  package enum Kind: Hashable, Sendable {
    /// No step is possible, and the state is not listed under `end`.
    case deadlock
    /// Events wait in these pipes, and no step is possible until an event comes from outside the
    /// topology.
    case stuck(pipes: [String])
    /// Each of these nodes waits for capacity in a pipe to the next node, and the last node waits
    /// for the first.
    case fullPipes([String])
    case deadLetter(
      pipe: String, node: String, event: JSONValue, state: JSONValue, reason: String)
    /// A node refuses an event from a pipe with `on_refused: fail`.
    case fatalRefusal(
      pipe: String, node: String, event: JSONValue, state: JSONValue, reason: String)
    /// A node refuses an event from a pipe with `on_refused: ignore`, and the event is dropped.
    case ignoredEvent(
      pipe: String, node: String, event: JSONValue, state: JSONValue, reason: String)
    /// An event never reaches a node or composite in a state that accepts the event.
    case neverEnabled(owner: String, event: String)
    case unreachable(node: String, state: String)
    case violated(property: String, ExploredProperty.Demand)
    /// A step of a node ends the process that computes the step.
    /// - Parameters:
    ///   - event: The event of the step; `nil` for the node's start.
    ///   - exitDescription: How the process has ended, for the message.
    case crash(node: String, event: JSONValue?, state: JSONValue, exitDescription: String)
    /// A node took different steps for the same event in the same state.
    case impure(node: String, event: JSONValue, state: JSONValue, answers: [String])
    /// Two states behave differently, although a `fold` of the `explore` section merges these
    /// states.
    case brokenFold(
      node: String, field: String, modulo: Int, event: JSONValue?, states: [JSONValue])
    /// A program sends an invalid answer.
    case badAnswer(program: String, problem: String)
    case lateAnswer(program: String, node: String, after: Duration)
  }

  package var kind: Kind
  /// The path of the related part of the topology file. ``SourceMap`` maps the path to a location.
  package var path: [String]
  /// The shortest known scenario that produces the finding; `nil` if no steps lead to the finding.
  package var scenario: Scenario?
  /// The number of similar findings that are not reported. Similar findings have the same kind, and
  /// the same names of nodes, pipes, events and states.
  package var similarCount = 0

  package init(_ kind: Kind, at path: [String], scenario: Scenario? = nil) {
    self.kind = kind
    self.path = path
    self.scenario = scenario
  }
}

extension ExplorationFinding {
  /// The codes of findings. The codes are stable, so that scripts and tests can rely on them.
  package enum Code: String, CaseIterable, Sendable {
    case deadlock, stuck
    case fullPipes = "full-pipes"
    case deadLetter = "dead-letter"
    case fatalRefusal = "fatal-refusal"
    case ignoredEvent = "ignored-event"
    case neverEnabled = "never-enabled"
    case unreachableState = "unreachable-state"
    case violatedProperty = "violated-property"
    case crashingStep = "crashing-step"
    case impureStep = "impure-step"
    case brokenFold = "broken-fold"
    case badAnswer = "bad-answer"
    case lateAnswer = "late-answer"

    /// Whether findings with this code are warnings, with which the topology can still run.
    package var isWarning: Bool {
      self == .ignoredEvent || self == .neverEnabled || self == .unreachableState
    }
  }

  package var code: Code {
    switch kind {
    case .deadlock: .deadlock
    case .stuck: .stuck
    case .fullPipes: .fullPipes
    case .deadLetter: .deadLetter
    case .fatalRefusal: .fatalRefusal
    case .ignoredEvent: .ignoredEvent
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

extension ExplorationFinding {
  /// The finding in a sentence, with advice.
  package var message: String {
    similarCount == 0 ? text : "\(text); similar findings: \(similarCount)"
  }

  private var text: String {
    switch kind {
    case .deadlock:
      return "deadlock: no node can take another step; add a transition to a node, or list these "
        + "states under 'explore: end' if they are final states"
    case .stuck(let pipes):
      return
        "stuck: \(Self.listText(pipes, "pipe")) hold\(pipes.count == 1 ? "s" : "") events that "
        + "the receiver refuses until an event comes from outside; accept these events in the "
        + "receiver, or record them as dead letters"
    case .fullPipes(let nodes):
      return
        "cycle of full pipes: each of \(Self.listText(nodes, "node")) waits for capacity in a pipe "
        + "to the next node; send fewer events from a node of the cycle, or raise the 'capacity' of "
        + "a pipe if the number of events in flight is bounded"
    case .deadLetter(let pipe, let node, let event, let state, let reason):
      return "dead letter: \(Self.refusal(pipe, node, event, state, reason)); add a transition, or "
        + "write 'on_refused: ignore'" + (Self.isInstance(node) ? "" : " or 'on_refused: postpone'")
    case .fatalRefusal(let pipe, let node, let event, let state, let reason):
      return "\(Self.refusal(pipe, node, event, state, reason)), and 'on_refused: fail' ends the "
        + "node; add a transition, or write 'on_refused: record'"
        + (Self.isInstance(node) ? "" : " or 'on_refused: postpone'")
    case .ignoredEvent(let pipe, let node, let event, let state, let reason):
      return "ignored event: \(Self.refusal(pipe, node, event, state, reason)), and 'on_refused: "
        + "ignore' drops the event; add 'Ignore' or a transition to the machine, or list the event "
        + "under 'explore: allow'"
    case .neverEnabled(let owner, let event):
      return "never enabled: '\(owner)' never receives event '\(event)' in a state that accepts "
        + "the event; send the event, list the event under 'explore: from_outside' or 'explore: "
        + "gives', or remove its transitions"
    case .unreachable(let node, let state):
      return "unreachable: '\(node)' never enters state '\(state)'; remove the state, or check why "
        + "the events that lead to the state do not occur"
    case .violated(let property, .never):
      return "property '\(property)' is violated: its states are reachable"
    case .violated(let property, .alwaysPossible):
      return "property '\(property)' is violated: after these steps, its states are no longer "
        + "reachable"
    case .crash(let node, let event, let state, let exitDescription):
      let step =
        event.map { "accepting '\($0.caseText)' in state '\(state.caseText)'" } ?? "starting"
      return
        "crashing step: \(step) ends the process of '\(node)': \(exitDescription); the running node would "
        + "crash, too"
    case .impure(let node, let event, let state, let answers):
      return "impure step: '\(node)' gave different results for event '\(event.caseText)' in state "
        + "'\(state.caseText)': \(answers.map { "'\($0)'" }.joined(separator: " and ")); compute "
        + "a step only from its state and event, and read clocks and files in an effect"
    case .brokenFold(let node, let field, let modulo, let event, let states):
      let list = states.map { "'\($0.caseText)'" }.joined(separator: " and ")
      return "broken fold: '\(field): \(modulo)' merges \(list) of '\(node)', but these states "
        + "behave differently\(event.map { " with event '\($0.caseText)'" } ?? ""); choose "
        + "another number, or remove the fold"
    case .badAnswer(let program, let problem):
      return "program '\(program)' sent an invalid answer: \(problem); rebuild the program with "
        + "this version of PipeRuntime, or list its nodes under 'explore: any'"
    case .lateAnswer(let program, let node, let time):
      return "program '\(program)' timed out for node '\(node)' after \(DurationText.write(time)): "
        + "a step does not return; the running node would hang, too"
    }
  }

  /// Returns whether a name is the name of an instance. Instances cannot postpone events.
  private static func isInstance(_ node: String) -> Bool { InstanceName(node) != nil }

  private static func refusal(
    _ pipe: String, _ node: String, _ event: JSONValue, _ state: JSONValue, _ reason: String
  ) -> String {
    "'\(node)' refuses event '\(event.caseText)' from pipe '\(pipe)' in state '\(state.caseText)' "
      + "(\(reason))"
  }

  private static func listText(_ names: [String], _ noun: String) -> String {
    (names.count == 1 ? "\(noun) " : "\(noun)s ") + names.map { "'\($0)'" }.joined(separator: ", ")
  }
}

extension ExplorationRemark {
  /// The codes of remarks. The codes are stable, so that scripts can rely on them.
  package enum Code: String, Sendable {
    case sampledValues = "sampled-values"
    case assumedGives = "assumed-gives"
    case assumedOutside = "assumed-from-outside"
    case lowerCapacity = "lower-capacity"
    case fullWhileLocked = "full-while-locked"
    case folded, instances
    case effectKeys = "effect-keys"
    case anyBehaviour = "any-behaviour"
    case unshown
    case impure
    case silentComposite = "silent-composite"
    case fingerprints, undecided, allowed, limit
    case uncheckedHalts = "halts-beyond"
  }

  package var code: Code {
    switch self {
    case .sampledValues: .sampledValues
    case .assumedGives: .assumedGives
    case .assumedOutside: .assumedOutside
    case .lowerCapacity: .lowerCapacity
    case .fullWhileLocked: .fullWhileLocked
    case .folded: .folded
    case .instances: .instances
    case .effectKeys: .effectKeys
    case .anyBehaviour: .anyBehaviour
    case .unshown: .unshown
    case .impure: .impure
    case .silentComposite: .silentComposite
    case .fingerprints: .fingerprints
    case .undecided: .undecided
    case .allowed: .allowed
    case .uncheckedHalts: .uncheckedHalts
    case .limit: .limit
    }
  }

  /// The remark in a sentence, with advice.
  package var message: String {
    switch self {
    case .sampledValues(let owner, let event, let field, let tried):
      return "field '\(field)' of event '\(event)' to '\(owner)' was tried only with the values "
        + "\(JSONValue.array(tried).text); declare 'values: { \(owner).\(event): { \(field): "
        + "\(JSONValue.array(tried).text) } }'"
    case .assumedGives(let node, let output, let events):
      return
        "effect '\(output)' of '\(node)' was assumed to send \(Self.listText(events)); declare "
        + "'gives: { \(node): { \(output): [\(events.joined(separator: ", "))] } }'"
    case .assumedOutside(let owner, let events):
      return
        "\(Self.listText(events)) to '\(owner)' \(events.count == 1 ? "was" : "were") assumed to "
        + "come from outside, because no node or effect sends "
        + "\(events.count == 1 ? "it" : "them"); declare 'from_outside: { \(owner): "
        + "[\(events.joined(separator: ", "))] }'"
    case .lowerCapacity(let pipe, let explored, let declared):
      return
        "pipe '\(pipe)' was full with \(explored) event\(explored == 1 ? "" : "s") in the search, "
        + "and has capacity \(declared) in a run; declare a higher 'explore: capacity', or "
        + "lower the 'capacity' of the pipe"
    case .fullWhileLocked(let pipe):
      return
        "pipe '\(pipe)' was full in the search, which lets its sender wait; in a run, an instance that "
        + "is locked by a synchronized event sends its events nevertheless; raise the 'capacity' of "
        + "the pipe"
    case .folded(let node, let field, let modulo, let comparison):
      let fold = "field '\(field)' of '\(node)' wraps to 0 after \(modulo - 1)"
      switch comparison {
      case .all(let states):
        return "\(fold); all \(states) merged states behave alike"
      case .some(let states):
        return
          "\(fold), assuming that merged states behave alike; only \(states) merged states were "
          + "compared"
      case .notByComposite(let name):
        return
          "\(fold), assuming that merged states behave alike; the behaviour of composite '\(name)' "
          + "in these states was not compared"
      }
    case .instances(let node, let keys, let keep):
      return
        "the search covers the \(keys.count == 1 ? "key" : "keys") \(Self.listText(keys)) of '\(node)'"
        + (keep.map {
          "; it keeps instances that have ended, and a run removes them after \(DurationText.write($0))"
        } ?? "")
    case .effectKeys(let node, let field):
      return "effects of '\(node)' give events whose field '\(field)' has the key of their instance"
    case .impure(let node):
      return "'\(node)' gave two different results for one step, and only one of the results was "
        + "searched"
    case .anyBehaviour(let node):
      return "'\(node)' is listed under 'any' and may send and accept any event at any time, so "
        + "findings may be impossible in a run"
    case .unshown(let code, let count):
      return
        "\(count) more finding\(count == 1 ? "" : "s") '\(code.rawValue)' \(count == 1 ? "is" : "are") not shown"
    case .fingerprints(let probability):
      return "states were compared by their hashes: a state was missed with probability "
        + "\(Self.rounded(probability)); omit '--hash', and raise '--memory'"
    case .undecided(let property, .memory):
      return "property '\(property)' is undecided: the backward search of its states ran out of "
        + "memory; raise '--memory'"
    case .undecided(let property, .capacity):
      return
        "property '\(property)' is undecided: the property fails only while a pipe is full in the "
        + "search, and the pipe has a higher capacity in a run; declare a higher "
        + "'explore: capacity'"
    case .undecided(let property, .anyBehaviour):
      return
        "property '\(property)' is undecided: the property depends on a node listed under 'any', "
        + "whose steps are not searched; remove the node from 'any', or remove the property"
    case .silentComposite(let composite, let node):
      return
        "composite '\(composite)' was assumed to send no events, since its node '\(node)' is "
        + "listed under 'any'; remove the node from 'any'"
    case .uncheckedHalts(let count):
      return "\(count) more states without a next step were not compared with 'allow'; "
        + "declare them under 'end'"
    case .allowed(let entry, let count):
      return count == 0
        ? "'allow' has an entry for '\(entry.kind.rawValue)' that matches no finding "
          + "(\(entry.reason)); remove it"
        : "\(count) '\(entry.kind.rawValue)' finding\(count == 1 ? "" : "s") allowed: "
          + entry.reason
    case .limit(let limit): return Self.wording(of: limit)
    }
  }

  private static func wording(of limit: Limit) -> String {
    switch limit {
    case .states(let count): "stopped after \(count) states, and more states remain"
    case .time(let time):
      "stopped after \(DurationText.write(time)), and more states remain; raise '--time'"
    case .memory(let bytes, let hashingSavesMemory):
      "out of memory at \(bytes >> 20) MiB, and more states remain; raise '--memory', "
        + (hashingSavesMemory ? "declare fewer values, or try '--hash'" : "or declare fewer values")
    case .nodeStates(let node, let limit, let field, let fold):
      "'\(node)' has more than \(limit) states"
        + (field.map { ": '\($0)' grows" } ?? "") + "; declare "
        + (fold.map { "'fold: { \(node): { \($0): 8 } }', or " } ?? "")
        + "fewer 'values', or raise '--node-states'"
    case .pipeContents(let pipe, let limit):
      "pipe '\(pipe)' had more than \(limit) different contents; lower 'capacity', or declare "
        + "fewer 'values'"
    case .firstViolation:
      "the search ended at the first violation; '--all' continues"
    case .cancelled: "the search was stopped"
    case .unexploredKey(let node, let key):
      "an event for instance '\(node)[\(key)]' was discarded, since the search does not cover this key; "
        + "name the key in 'explore: values', or raise 'explore: keys'"
    case .notEvaluated(let node, let event, let reason):
      "event '\(event.caseText)' of '\(node)' could not be evaluated: \(reason)"
    case .noAnswer(let program): "program '\(program)' sent no valid answer"
    }
  }

  private static func listText(_ names: [String]) -> String {
    names.isEmpty ? "nothing" : names.map { "'\($0)'" }.joined(separator: ", ")
  }

  private static func rounded(_ probability: Double) -> String {
    guard probability > 0 else { return "0" }
    var exponent = 0
    var value = probability
    while value < 1 {
      value *= 10
      exponent -= 1
    }
    return exponent == 0 ? "\(value)" : "\(Int(value.rounded()))e\(exponent)"
  }
}

extension ExplorationVerdict {
  /// The verdict in a sentence.
  /// - Parameter findings: The number of findings that are errors.
  package func wording(findings: Int) -> String {
    let found = findings == 0 ? "no findings" : "\(findings) finding\(findings == 1 ? "" : "s")"
    switch degree {
    case .exact:
      return findings == 0
        ? "exact: all reachable states were searched\(instanceCountsText), \(found)"
        : "exact: \(found)\(instanceCountsText)"
    case .sampled:
      return "sampled: \(found)\(instanceCountsText), for the tried values and the assumptions"
    case .incomplete:
      return
        "incomplete: \(found)\(instanceCountsText) before the search ended; the remaining states may contain errors"
    }
  }

  /// The numbers of keys that the search covers, as part of the verdict's sentence; empty if no
  /// node has instances.
  private var instanceCountsText: String {
    var nodes: [Int: [String]] = [:]
    for case .instances(let node, let keys, _) in remarks {
      nodes[keys.count, default: []].append("'\(node)'")
    }
    let counts = nodes.sorted { $0.key < $1.key }.map { count, nodes in
      "up to \(count) key\(count == 1 ? "" : "s") of " + nodes.sorted().joined(separator: " and ")
    }
    return counts.isEmpty ? "" : " for " + counts.joined(separator: " and ")
  }
}
