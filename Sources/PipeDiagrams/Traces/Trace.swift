import PipeMachines
import PipeWire

/// The recorded steps of several nodes, with the cause of each step.
package struct Trace: Sendable {
  /// A step, with its relations to other steps.
  package struct Step: Sendable {
    package var nodeStep: NodeStep
    /// The time of the step. Unit: nanoseconds since 1970.
    package var time: Int64
    /// The index of the step that sent this step's event, in ``Trace/steps``; `nil` if that step is
    /// unknown.
    package var causeIndex: Int?
    /// The index of the synchronized event to which this step belongs, in
    /// ``Trace/synchronizedEvents``; `nil` for other steps.
    package var synchronizedEventIndex: Int?
  }

  /// A synchronized event with the steps of its participants.
  package struct SynchronizedEvent: Sendable {
    package var transaction: TransactionID
    /// The name of the composite that committed the event. If the composite is unknown, the names
    /// of the participants.
    package var name: String
    package var event: String
    /// The indices of the steps in ``Trace/steps``.
    package var stepIndices: [Int]
    /// The times of the event's first and last step (`startTime` and `endTime`). Unit: nanoseconds
    /// since 1970.
    package var startTime: Int64
    package var endTime: Int64
  }

  package var topology: String
  /// The nodes whose steps were recorded, in the order of the topology file.
  package var nodes: [String]
  /// The members of ``nodes`` that are composites.
  package var composites: Set<String>
  /// The steps, in the order of their times.
  package var steps: [Step]
  package var synchronizedEvents: [SynchronizedEvent]
  /// For each node, the number of steps that are missing in the trace.
  package var missingStepCounts: [String: UInt64]
}

extension Trace.Step {
  package var node: String { nodeStep.node }

  /// The name of the instance or, if the node has no `key`, of the node.
  package var name: String { nodeStep.name }

  /// A readable form of the event. If the step has no event, the step's cause.
  package var eventText: String { nodeStep.event?.caseText ?? nodeStep.cause ?? "?" }

  /// The name of the event, without values. If the step has no event, the step's cause.
  package var eventName: String { nodeStep.event?.caseName ?? nodeStep.cause ?? "?" }

  /// A readable form of the state after the step.
  package var stateText: String { nodeStep.state?.caseText ?? "?" }

  /// The origin of the step's event: a pipe and a number, a client's request, or an effect.
  package var origin: String {
    if let source = nodeStep.source { return "\(source.pipe) \(source.number)" }
    if let request = nodeStep.request {
      return "request \(request.number) of client \(request.client)"
    }
    if let transaction = nodeStep.transaction { return "transaction \(transaction)" }
    if let effect = nodeStep.effect { return "effect of version \(effect)" }
    return nodeStep.cause ?? "?"
  }
}

/// The output formats of a trace.
package enum TraceFormat: String, Hashable, Sendable, CaseIterable {
  /// Text for people. Each step is below its cause.
  case text
  /// Chromium's trace event format, which Perfetto and `chrome://tracing` read.
  case chrome
  /// OpenTelemetry's OTLP JSON format.
  case otlp
  /// A Mermaid sequence diagram.
  case mermaid

  /// Writes a trace in this format, part by part.
  package func write(_ trace: Trace, to write: (String) throws -> Void) throws {
    switch self {
    case .text: try TextTrace(trace).write(to: write)
    case .chrome: try ChromeTrace(trace).write(to: write)
    case .otlp: try OTLPTrace(trace).write(to: write)
    case .mermaid: try MermaidTrace(trace).write(to: write)
    }
  }
}

/// Collects the steps that nodes report, and finds the cause of each step.
package struct TraceRecorder: Sendable {
  /// For each node and composite, the index of its coordinator. Transaction numbers are unique only
  /// among the transactions of one coordinator.
  private let coordinatorNumbers: [String: Int]
  private let topology: String
  private let nodes: [String]
  private let composites: Set<String>
  /// For each composite, the names of its synchronized events.
  private let synchronizableEvents: [String: Set<String>]
  private var steps: [NodeStep] = []
  private var missingStepCounts: [String: UInt64] = [:]

  /// The maximum number of steps to record. Later steps are only counted.
  package static let maximumStepCount = 200_000

  /// - Parameters:
  ///   - nodes: The nodes that report steps, in the order of the topology file.
  ///   - classes: The conflict classes of composites. Each class has one coordinator.
  package init(topology: String, nodes: [String], classes: [ConflictClassPlan] = []) {
    self.topology = topology
    self.nodes = nodes
    var coordinatorNumbers: [String: Int] = [:]
    var synchronizableEvents: [String: Set<String>] = [:]
    for (position, plan) in classes.enumerated() {
      for composite in plan.composites {
        synchronizableEvents[composite.name] = Set(composite.vectors.map(\.event))
        coordinatorNumbers[composite.name] = position
        for node in composite.nodes { coordinatorNumbers[node] = position }
      }
    }
    self.coordinatorNumbers = coordinatorNumbers
    self.synchronizableEvents = synchronizableEvents
    composites = Set(synchronizableEvents.keys).intersection(nodes)
  }

  package var stepCount: Int { steps.count }

  /// Records a step, or a report that a node has skipped a number of steps.
  /// - Parameter lost: The number of steps of the same node that were reported before this step,
  ///   but did not arrive.
  package mutating func take(_ step: NodeStep, lost: UInt64 = 0) {
    let missing = lost + (step.skipped ?? 0)
    if missing > 0 { missingStepCounts[step.node, default: 0] += missing }
    guard step.skipped == nil else { return }
    guard steps.count < Self.maximumStepCount else {
      missingStepCounts[step.node, default: 0] += 1
      return
    }
    steps.append(step)
  }

  /// The trace of all recorded steps.
  package var trace: Trace {
    var order = Array(steps.indices)
    order.sort { (steps[$0].time ?? 0, $0) < (steps[$1].time ?? 0, $1) }
    var found = order.map { Trace.Step(nodeStep: steps[$0], time: steps[$0].time ?? 0) }
    linkCauses(&found)
    let synchronizedEvents = synchronizedEvents(among: &found)
    return Trace(
      topology: topology, nodes: nodes, composites: composites, steps: found,
      synchronizedEvents: synchronizedEvents,
      missingStepCounts: missingStepCounts)
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

  /// The identity of a step: its node, and the node's version after the step.
  ///
  /// The key does not contain the incarnation: an effect refers only to the version of the step
  /// that started the effect, and may end in a later process of the node.
  private struct StepKey: Hashable {
    /// The name of the node or the instance.
    var name: String
    var version: UInt64
  }

  private func linkCauses(_ steps: inout [Trace.Step]) {
    var senders: [EventKey: Int] = [:]
    for (position, step) in steps.enumerated() {
      for event in step.nodeStep.sent ?? [] { senders[EventKey(event)] = position }
    }
    // A node without a journal counts versions from 0 in each process. So several steps can have
    // the same version, and the last of them is used.
    var starters: [StepKey: Int] = [:]
    for position in steps.indices {
      let step = steps[position].nodeStep
      if let source = step.source {
        steps[position].causeIndex = senders[EventKey(source)]
      } else if let effect = step.effect {
        steps[position].causeIndex = starters[StepKey(name: step.name, version: effect)]
      }
      starters[StepKey(name: step.name, version: step.version)] = position
    }
  }

  /// Returns the name of the composite that committed a synchronized event.
  ///
  /// Several composites may contain the same nodes. The participants report the composite as the
  /// cause of their steps. The composite reports the event as the cause of its own step.
  private func name(of steps: [NodeStep]) -> String {
    let causes = steps.filter { synchronizableEvents[$0.node] == nil }.compactMap(\.cause)
    if let cause = causes.first(where: { synchronizableEvents[$0] != nil }) { return cause }
    let own = steps.filter { synchronizableEvents[$0.node] != nil }
    let qualified = own.filter { step in
      synchronizableEvents[step.node]?.contains(step.cause ?? "") == true
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
      guard let transaction = step.nodeStep.transaction else { continue }
      let key = SynchronizedEventKey(
        coordinator: coordinatorNumbers[step.node] ?? -1, transaction: transaction)
      let synchronizedEvent = positions[key] ?? synchronizedEvents.count
      if synchronizedEvent == synchronizedEvents.count {
        positions[key] = synchronizedEvent
        synchronizedEvents.append(
          Trace.SynchronizedEvent(
            transaction: transaction, name: "", event: "", stepIndices: [], startTime: step.time,
            endTime: step.time))
      }
      steps[position].synchronizedEventIndex = synchronizedEvent
      synchronizedEvents[synchronizedEvent].stepIndices.append(position)
      synchronizedEvents[synchronizedEvent].endTime = max(
        synchronizedEvents[synchronizedEvent].endTime, step.time)
      // The text of the event comes from a participant's step, because the step of the composite
      // has no event.
      if synchronizedEvents[synchronizedEvent].event.isEmpty,
        let event = step.nodeStep.event?.caseText
      {
        synchronizedEvents[synchronizedEvent].event = event
      }
    }
    for index in synchronizedEvents.indices {
      synchronizedEvents[index].name = name(
        of: synchronizedEvents[index].stepIndices.map { steps[$0].nodeStep })
      if synchronizedEvents[index].event.isEmpty {
        synchronizedEvents[index].event =
          synchronizedEvents[index].stepIndices.first.map { steps[$0].eventName } ?? "?"
      }
    }
    return synchronizedEvents
  }
}
