import PipeMachines
import PipeWire

/// The steps of several nodes during a run, with the relations between them.
package struct Trace: Sendable {
  /// A step with its relations to other steps.
  package struct Step: Sendable {
    package var step: NodeStep
    /// The time of the step. Unit: nanoseconds since 1970.
    package var time: Int64
    /// The index, in ``Trace/steps``, of the step that sent the event of this step.
    package var cause: Int?
    /// The index, in ``Trace/meetings``, of the synchronized event that this step is part of.
    package var synchronizedEvent: Int?
  }

  /// A synchronized event with the steps of its participants.
  package struct SynchronizedEvent: Sendable {
    package var transaction: TransactionID
    /// The composite that committed the event, or the participants if the composite is unknown.
    package var name: String
    package var event: String
    /// The indices of the steps in ``Trace/steps``.
    package var steps: [Int]
    /// The first and the last time of the steps. Unit: nanoseconds since 1970.
    package var start: Int64
    package var end: Int64
  }

  package var topology: String
  /// The nodes whose steps were followed, in the order of the file.
  package var nodes: [String]
  /// The names in ``nodes`` that are composites.
  package var composites: Set<String>
  /// The steps, in the order of their times.
  package var steps: [Step]
  package var synchronizedEvents: [SynchronizedEvent]
  /// The number of unreported steps, by node.
  package var untold: [String: UInt64]
}

extension Trace.Step {
  package var node: String { step.node }

  /// A readable form of the event, or the cause of a step without an event.
  package var eventText: String { step.event?.caseText ?? step.cause ?? "?" }

  /// The name of the event, without its values.
  package var eventName: String { step.event?.caseName ?? step.cause ?? "?" }

  /// A readable form of the state that the step entered.
  package var stateText: String { step.state?.caseText ?? "?" }

  /// The origin of the step's event: a pipe and a number, a client's request, or an effect.
  package var origin: String {
    if let source = step.source { return "\(source.pipe) \(source.number)" }
    if let request = step.request { return "request \(request.number) of client \(request.client)" }
    if let transaction = step.transaction { return "transaction \(transaction)" }
    if let effect = step.effect { return "effect of version \(effect)" }
    return step.cause ?? "?"
  }
}

/// The output formats of a trace.
package enum TraceFormat: String, Hashable, Sendable, CaseIterable {
  /// Text for people: each step below its cause.
  case text
  /// Chromium's trace event format, which Perfetto and `chrome://tracing` read.
  case chrome
  /// OpenTelemetry's OTLP JSON format.
  case otlp
  /// A Mermaid sequence diagram.
  case mermaid

  /// Writes the trace in this format, in several parts.
  package func write(_ trace: Trace, to write: (String) throws -> Void) throws {
    switch self {
    case .text: try TextTrace(trace).write(to: write)
    case .chrome: try ChromeTrace(trace).write(to: write)
    case .otlp: try OTLPTrace(trace).write(to: write)
    case .mermaid: try MermaidTrace(trace).write(to: write)
    }
  }
}

/// Collects reported steps, and finds the relations between them.
package struct TraceRecorder: Sendable {
  /// The coordinator of each node and composite, by index: each coordinator numbers its own transactions.
  private let coordinator: [String: Int]
  private let topology: String
  private let nodes: [String]
  private let composites: Set<String>
  /// The events that can be requested from each composite.
  private let synchronizable: [String: Set<String>]
  private var steps: [NodeStep] = []
  private var untold: [String: UInt64] = [:]

  /// The maximum number of recorded steps; later steps are only counted.
  package static let limit = 200_000

  /// - Parameters:
  ///   - nodes: The nodes that report steps, in the order of the file.
  ///   - classes: The conflict classes of composites, each with one coordinator, and with their
  ///     nodes.
  package init(topology: String, nodes: [String], classes: [ConflictClassPlan] = []) {
    self.topology = topology
    self.nodes = nodes
    var coordinator: [String: Int] = [:]
    var synchronizable: [String: Set<String>] = [:]
    for (position, plan) in classes.enumerated() {
      for composite in plan.composites {
        synchronizable[composite.name] = Set(composite.vectors.map(\.event))
        coordinator[composite.name] = position
        for node in composite.nodes { coordinator[node] = position }
      }
    }
    self.coordinator = coordinator
    self.synchronizable = synchronizable
    composites = Set(synchronizable.keys).intersection(nodes)
  }

  package var count: Int { steps.count }

  /// Records a reported step, or the number of unreported steps.
  /// - Parameter lost: The number of steps that were reported before this step but did not arrive.
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

  /// The recorded steps as a trace.
  package var trace: Trace {
    var order = Array(steps.indices)
    order.sort { (steps[$0].time ?? 0, $0) < (steps[$1].time ?? 0, $1) }
    var found = order.map { Trace.Step(step: steps[$0], time: steps[$0].time ?? 0) }
    link(&found)
    let synchronizedEvents = synchronizedEvents(among: &found)
    return Trace(
      topology: topology, nodes: nodes, composites: composites, steps: found,
      synchronizedEvents: synchronizedEvents,
      untold: untold)
  }

  /// The identity of an event in a pipe.
  private struct EventKey: Hashable {
    var pipe: String
    var stream: UInt64
    var number: UInt64

    init(_ event: NodeStep.PipedEvent) {
      (pipe, stream, number) = (event.pipe, event.stream, event.number)
    }
  }

  /// The identity of a step. An effect refers to the step that started it, even if a later process
  /// ends the effect.
  private struct StepKey: Hashable {
    var node: String
    var version: UInt64
  }

  private func link(_ steps: inout [Trace.Step]) {
    var senders: [EventKey: Int] = [:]
    for (position, step) in steps.enumerated() {
      for event in step.step.sent ?? [] { senders[EventKey(event)] = position }
    }
    // A volatile node starts counting again in each process, so the last step of a version is the
    // right one.
    var starters: [StepKey: Int] = [:]
    for position in steps.indices {
      let step = steps[position].step
      if let source = step.source {
        steps[position].cause = senders[EventKey(source)]
      } else if let effect = step.effect {
        steps[position].cause = starters[StepKey(node: step.node, version: effect)]
      }
      starters[StepKey(node: step.node, version: step.version)] = position
    }
  }

  /// Returns the name of the composite that committed a synchronized event.
  ///
  /// Other composites may observe the same nodes. Participants name the committing composite as the
  /// cause of their steps. The step of a composite itself names the event.
  private func name(of steps: [NodeStep]) -> String {
    let causes = steps.filter { synchronizable[$0.node] == nil }.compactMap(\.cause)
    if let cause = causes.first(where: { synchronizable[$0] != nil }) { return cause }
    let own = steps.filter { synchronizable[$0.node] != nil }
    let qualified = own.filter { step in
      synchronizable[step.node]?.contains(step.cause ?? "") == true
    }
    return (own.isEmpty ? steps : qualified.isEmpty ? own : qualified).map(\.node).joined(
      separator: ", ")
  }

  private struct SynchronizedEventKey: Hashable {
    var coordinator: Int
    var transaction: TransactionID
  }

  private func synchronizedEvents(among steps: inout [Trace.Step]) -> [Trace.SynchronizedEvent] {
    var synchronizedEvents: [Trace.SynchronizedEvent] = []
    var positions: [SynchronizedEventKey: Int] = [:]
    for position in steps.indices {
      let step = steps[position]
      guard let transaction = step.step.transaction else { continue }
      let key = SynchronizedEventKey(
        coordinator: coordinator[step.node] ?? -1, transaction: transaction)
      let synchronizedEvent = positions[key] ?? synchronizedEvents.count
      if synchronizedEvent == synchronizedEvents.count {
        positions[key] = synchronizedEvent
        synchronizedEvents.append(
          Trace.SynchronizedEvent(
            transaction: transaction, name: "", event: "", steps: [], start: step.time,
            end: step.time))
      }
      steps[position].synchronizedEvent = synchronizedEvent
      synchronizedEvents[synchronizedEvent].steps.append(position)
      synchronizedEvents[synchronizedEvent].end = max(
        synchronizedEvents[synchronizedEvent].end, step.time)
      // A composite's own step has no event.
      if synchronizedEvents[synchronizedEvent].event.isEmpty, let event = step.step.event?.caseText
      {
        synchronizedEvents[synchronizedEvent].event = event
      }
    }
    for index in synchronizedEvents.indices {
      synchronizedEvents[index].name = name(
        of: synchronizedEvents[index].steps.map { steps[$0].step })
      if synchronizedEvents[index].event.isEmpty {
        synchronizedEvents[index].event =
          synchronizedEvents[index].steps.first.map { steps[$0].eventName } ?? "?"
      }
    }
    return synchronizedEvents
  }
}
