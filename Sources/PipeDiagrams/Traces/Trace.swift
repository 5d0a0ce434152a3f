import PipeMachines
import PipeWire

/// What the steps of several nodes tell of a run as a whole.
package struct Trace: Sendable {
  /// A step, and what it has to do with others.
  package struct Step: Sendable {
    package var step: NodeStep
    /// Unit: nanoseconds since 1970.
    package var time: Int64
    /// The step that sent what this one took: its place in ``Trace/steps``.
    package var cause: Int?
    /// The synchronized event that it is part of: its place in ``Trace/meetings``.
    package var meeting: Int?
  }

  /// A synchronized event: the steps that are part of it.
  package struct Meeting: Sendable {
    package var transaction: TransactionID
    /// The composite that has committed it, or the participants, where that is not known.
    package var name: String
    package var event: String
    /// Their places in ``Trace/steps``.
    package var steps: [Int]
    /// The first and the last time among them. Unit: nanoseconds since 1970.
    package var start: Int64
    package var end: Int64
  }

  package var topology: String
  /// Whose steps were followed, in the order of the file.
  package var nodes: [String]
  /// Those of them that are composites.
  package var composites: Set<String>
  /// In the order of their times.
  package var steps: [Step]
  package var meetings: [Meeting]
  /// How many steps of a node were not told.
  package var untold: [String: UInt64]
}

extension Trace.Step {
  package var node: String { step.node }

  /// The event, as a person reads it; what has caused the step, where it had none.
  package var eventText: String { step.event?.caseText ?? step.cause ?? "?" }

  /// The name of the event, without its values.
  package var eventName: String { step.event?.caseName ?? step.cause ?? "?" }

  /// The state that it has led to.
  package var stateText: String { step.state?.caseText ?? "?" }

  /// Where what it took came from: a pipe and a number, a client's request, an effect.
  package var origin: String {
    if let source = step.source { return "\(source.pipe) \(source.number)" }
    if let request = step.request { return "request \(request.number) of client \(request.client)" }
    if let transaction = step.transaction { return "transaction \(transaction)" }
    if let effect = step.effect { return "effect of version \(effect)" }
    return step.cause ?? "?"
  }
}

/// The forms in which a trace is written.
package enum TraceForm: String, Hashable, Sendable, CaseIterable {
  /// For a person: each step below the one that has caused it.
  case text
  /// The trace event format of Chromium, which Perfetto and `chrome://tracing` read.
  case chrome
  /// OpenTelemetry's traces as OTLP writes them in JSON.
  case otlp
  /// A sequence diagram of Mermaid.
  case mermaid

  /// The trace in this form, a part after the other.
  package func write(_ trace: Trace, to write: (String) throws -> Void) throws {
    switch self {
    case .text: try TextTrace(trace).write(to: write)
    case .chrome: try ChromeTrace(trace).write(to: write)
    case .otlp: try OTLPTrace(trace).write(to: write)
    case .mermaid: try MermaidTrace(trace).write(to: write)
    }
  }
}

/// Collects steps as they are told, and finds out what they have to do with each other.
package struct TraceRecorder: Sendable {
  /// Which composites' coordinator a node belongs to: transactions are numbered for each of them.
  private let coordinator: [String: Int]
  private let topology: String
  private let nodes: [String]
  private let composites: Set<String>
  /// By composite, the events that it can be asked for.
  private let synchronizable: [String: Set<String>]
  private var steps: [NodeStep] = []
  private var untold: [String: UInt64] = [:]

  /// As many steps as are kept at most; of later ones only the number.
  package static let limit = 200_000

  /// - Parameters:
  ///   - nodes: Whose steps are told, in the order of the file.
  ///   - classes: The composites that share a coordinator, with the nodes that they consist of.
  package init(topology: String, nodes: [String], classes: [ConflictClassPlan] = []) {
    self.topology = topology
    self.nodes = nodes
    var coordinator: [String: Int] = [:]
    var synchronizable: [String: Set<String>] = [:]
    for (place, plan) in classes.enumerated() {
      for composite in plan.composites {
        synchronizable[composite.name] = Set(composite.vectors.map(\.event))
        coordinator[composite.name] = place
        for node in composite.nodes { coordinator[node] = place }
      }
    }
    self.coordinator = coordinator
    self.synchronizable = synchronizable
    composites = Set(synchronizable.keys).intersection(nodes)
  }

  package var count: Int { steps.count }

  /// Takes a step, or the number of those that were not told.
  /// - Parameter lost: How many before it were told and did not come.
  package mutating func take(_ step: NodeStep, lost: UInt64 = 0) {
    let missing = lost + (step.skipped ?? 0)
    if missing > 0 { untold[step.node, default: 0] += missing }
    guard step.skipped == nil else { return }
    guard steps.count < Self.limit else {
      untold[step.node, default: 0] += 1
      return
    }
    steps.append(step)
  }

  /// What was collected.
  package var trace: Trace {
    var order = Array(steps.indices)
    order.sort { (steps[$0].time ?? 0, $0) < (steps[$1].time ?? 0, $1) }
    var found = order.map { Trace.Step(step: steps[$0], time: steps[$0].time ?? 0) }
    link(&found)
    let meetings = meetings(among: &found)
    return Trace(
      topology: topology, nodes: nodes, composites: composites, steps: found, meetings: meetings,
      untold: untold)
  }

  /// What an event of a pipe is known by.
  private struct EventKey: Hashable {
    var pipe: String
    var stream: UInt64
    var number: UInt64

    init(_ event: NodeStep.Piped) {
      (pipe, stream, number) = (event.pipe, event.stream, event.number)
    }
  }

  /// What a step is known by, also to the effect that it has started, which a later process may end.
  private struct StepKey: Hashable {
    var node: String
    var version: UInt64
  }

  private func link(_ steps: inout [Trace.Step]) {
    var senders: [EventKey: Int] = [:]
    for (place, step) in steps.enumerated() {
      for event in step.step.sent ?? [] { senders[EventKey(event)] = place }
    }
    // A volatile node counts anew in each process: the last step of the version is meant.
    var starters: [StepKey: Int] = [:]
    for place in steps.indices {
      let step = steps[place].step
      if let source = step.source {
        steps[place].cause = senders[EventKey(source)]
      } else if let effect = step.effect {
        steps[place].cause = starters[StepKey(node: step.node, version: effect)]
      }
      starters[StepKey(node: step.node, version: step.version)] = place
    }
  }

  /// The composite that has committed a synchronized event, of which others observe the same nodes: participants
  /// name it as the cause of their steps. A composite's own step names the event.
  private func name(of steps: [NodeStep]) -> String {
    let causes = steps.filter { synchronizable[$0.node] == nil }.compactMap(\.cause)
    if let cause = causes.first(where: { synchronizable[$0] != nil }) { return cause }
    let own = steps.filter { synchronizable[$0.node] != nil }
    let able = own.filter { step in synchronizable[step.node]?.contains(step.cause ?? "") == true }
    return (own.isEmpty ? steps : able.isEmpty ? own : able).map(\.node).joined(separator: ", ")
  }

  private struct MeetingKey: Hashable {
    var coordinator: Int
    var transaction: TransactionID
  }

  private func meetings(among steps: inout [Trace.Step]) -> [Trace.Meeting] {
    var meetings: [Trace.Meeting] = []
    var places: [MeetingKey: Int] = [:]
    for place in steps.indices {
      let step = steps[place]
      guard let transaction = step.step.transaction else { continue }
      let key = MeetingKey(
        coordinator: coordinator[step.node] ?? -1, transaction: transaction)
      let meeting = places[key] ?? meetings.count
      if meeting == meetings.count {
        places[key] = meeting
        meetings.append(
          Trace.Meeting(
            transaction: transaction, name: "", event: "", steps: [], start: step.time,
            end: step.time))
      }
      steps[place].meeting = meeting
      meetings[meeting].steps.append(place)
      meetings[meeting].end = max(meetings[meeting].end, step.time)
      // A composite's own step has no event.
      if meetings[meeting].event.isEmpty, let event = step.step.event?.caseText {
        meetings[meeting].event = event
      }
    }
    for index in meetings.indices {
      meetings[index].name = name(of: meetings[index].steps.map { steps[$0].step })
      if meetings[index].event.isEmpty {
        meetings[index].event = meetings[index].steps.first.map { steps[$0].eventName } ?? "?"
      }
    }
    return meetings
  }
}
