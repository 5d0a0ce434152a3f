import PipeMachines
import PipeSupport
import PipeWire

/// The outbound pipes of a machine: the pipes of its ports, and the pipes into which rules of the
/// topology file send events.
final class MachineOutlets: PortBinder {
  private let log: NodeLog
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var rules: [(rule: StateRule, pipe: PipeEnds)] = []
  private var outPipes: [OutPipe] = []
  /// The pipes of rules and step reports that may be full. A pipe may be full if an event was
  /// queued in it since the last check, or if the pipe is new.
  @exclusivity(unchecked)
  private var possiblyFullPipes: [OutPipe] = []
  /// The pipes that report each step to coordinators, each with the required content of its
  /// reports.
  @exclusivity(unchecked)
  private var stepReportPipes: [(OutPipe, NodeConfiguration.Steps)] = []
  /// The number of steps that were reported without their state.
  private var omittedStateCount: UInt64 = 0
  /// The pipes of each port, by the port's name.
  private var pipesByPort: [String: [PipeEnds]] = [:]
  /// The objects that queue the events of a port in the port's pipes, by the port's name.
  private var outlets: [String: any AnyPortOutlet] = [:]

  init(log: NodeLog) { self.log = log }

  /// Connects ports and rules to their pipes. Called again for pipes that are added later.
  /// - Throws: `NodeSetupError` if the machine does not have the port of a pipe or the state of a
  ///   rule.
  func connect(
    _ pairs: [(NodeConfiguration.Out, OutPipe)], _ ports: Ports, of machine: MachineDescription
  ) throws {
    outPipes += pairs.map(\.1)
    for (configuration, ends) in PipeEnds.grouped(pairs) {
      if let port = configuration.port { pipesByPort[port, default: []].append(ends) }
      if let rule = configuration.rule {
        rules.append((try StateRule(rule, pipe: ends.name, states: machine.states), ends))
        ends.shardPipes.forEach(markPossiblyFull)
      }
    }
    for (configuration, pipe) in pairs {
      if let steps = configuration.steps {
        stepReportPipes.append((pipe, steps))
        markPossiblyFull(pipe)
      }
    }
    ports.bind(with: self)
    if let unknown = pipesByPort.keys.first(where: { !ports.names.contains($0) }) {
      throw NodeSetupError("machine '\(machine.machine)' has no port '\(unknown)'")
    }
  }

  func bind<Carried: MachineEvent>(_ pipe: EventPipe<Carried>) {
    let name = pipe.name ?? ""
    let pipes = pipesByPort[name] ?? []
    if let existing = outlets[name] {
      existing.connect(to: pipes)
    } else {
      let outlet = PortOutlet(pipe, pipes: pipes, log: log)
      outlets[name] = outlet
      pipe.bind(to: outlet)
    }
  }

  /// Reports each sent event to `watcher`, with the name and the stream of the event's pipe, and
  /// the event's number; `nil` ends the reports.
  func watch(
    _ watcher: ((_ pipe: String, _ stream: UInt64, _ number: UInt64, ArraySlice<UInt8>) -> Void)?
  ) {
    // Skips pipes that report steps to coordinators, because their events are the steps themselves.
    for pipe in outPipes where !stepReportPipes.contains(where: { $0.0 === pipe }) {
      let (name, stream) = (pipe.name, pipe.state.stream)
      pipe.watch(watcher.map { watcher in { watcher(name, stream, $0, $1) } })
    }
  }

  /// The outbound pipes with their pending events, for the report of a gate.
  var gateReports: [GateReport.PipeEnd] {
    outPipes.filter { pipe in !stepReportPipes.contains { $0.0 === pipe } }.map(\.gateReport)
  }

  /// Whether any pipe is full.
  var isFull: Bool { outPipes.contains { $0.isFull } }

  /// The names of the pipes that are full.
  var fullPipeNames: [String] { outPipes.filter(\.isFull).map(\.name) }

  /// Returns whether there is a durable pipe with this name.
  func hasDurablePipe(_ name: String) -> Bool {
    outPipes.contains { $0.name == name && $0.state.isDurable }
  }

  var hasRules: Bool { !rules.isEmpty }

  /// Whether coordinators receive a report of each step.
  var reportsSteps: Bool { !stepReportPipes.isEmpty }

  /// Reports a step to the coordinators. If the state cannot be reported, reports the step without
  /// the state, so that no coordinator waits for the step.
  /// - Parameters:
  ///   - state: The state as JSON, or the error that occurred when the state was encoded.
  ///   - transaction: The transaction that led to the state; `nil` if the node took the step alone.
  func reportStep(
    _ entry: StepReport.Entry, _ state: Result<[UInt8], any Error>,
    _ transaction: TransactionID? = nil
  ) {
    var reportedState: [UInt8]?
    switch state {
    case .success(let bytes):
      reportedState =
        StepReport.reasonNotToReport(bytes).map { logOmittedState(because: $0) } == nil
        ? bytes : nil
    case .failure(let error):
      logOmittedState(because: "the state cannot be written as JSON: \(error)")
    }
    for (pipe, steps) in stepReportPipes {
      let step = StepReport(
        entry, transaction: steps == .transactions ? transaction : nil, state: reportedState)
      pipe.enqueue { step.write(into: &$0) }
      markPossiblyFull(pipe)
    }
  }

  private func logOmittedState(because obstacle: String) {
    omittedStateCount += 1
    guard omittedStateCount.isWorthLogging else { return }
    let names = stepReportPipes.map { "'\($0.0.name)'" }.joined(separator: ", ")
    log.warning(
      "pipe \(names): a step is reported without its state, and composites with outbound pipes "
        + "have no state until the next report: \(obstacle) (\(omittedStateCount) times so far)")
  }

  /// Whether a pipe of a rule or of step reports is full. The next step must then wait, because the
  /// step may send an event through this pipe.
  var isRulePipeFull: Bool {
    while let pipe = possiblyFullPipes.last {
      if pipe.isFull { return true }
      pipe.isPossiblyFull = false
      possiblyFullPipes.removeLast()
    }
    return false
  }

  /// Notes that a pipe may be full, because an event was queued in it or because it has just been
  /// opened.
  private func markPossiblyFull(_ pipe: OutPipe) {
    guard !pipe.isPossiblyFull else { return }
    pipe.isPossiblyFull = true
    possiblyFullPipes.append(pipe)
  }

  /// Sends the events of the rules for a state.
  /// - Parameters:
  ///   - tag: The index of the state's case.
  ///   - key: The key of the instance, for `$key`; `nil` in a node without instances.
  ///   - state: Returns the state as JSON. Called only if a rule uses a part of the state.
  @export(interface)
  func fire(_ tag: Int, of key: InstanceKey? = nil, _ state: () -> [UInt8]) {
    var json: [UInt8]?
    for (rule, pipe) in rules where rule.stateTag == tag {
      let event = rule.event(of: key) { () -> [UInt8] in
        let bytes = json ?? state()
        json = bytes
        return bytes
      }
      let pipe = pipe.pipe(for: event)
      pipe.enqueue { $0.append(contentsOf: event) }
      markPossiblyFull(pipe)
    }
  }

  /// The number of events that were sent through ports without pipes.
  var discardedCount: UInt64 { outlets.values.reduce(0) { $0 + $1.discardedCount } }
}

/// The outlet of a port, independent of the type of its events.
protocol AnyPortOutlet: AnyObject {
  /// Replaces the pipes in which the outlet queues the port's events.
  func connect(to ends: [PipeEnds])
  /// The number of events that were sent while the port had no pipe.
  var discardedCount: UInt64 { get }
}

/// The outlet of a machine's port. Queues events in the pipes that the topology file connects to
/// the port.
// Unchecked: steps enqueue events and check for full pipes, and only the loop's thread takes steps.
final class PortOutlet<Event: MachineEvent>: PipeOutlet, AnyPortOutlet, @unchecked Sendable {
  private let port: String
  @exclusivity(unchecked)
  private var pipes: [OutPipe] = []
  /// The pipes whose receivers have several shards.
  @exclusivity(unchecked)
  private var shardedPipes: [PipeEnds] = []
  private let log: NodeLog
  private let encode: @Sendable (Event, inout [UInt8]) throws -> Void
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private(set) var discardedCount: UInt64 = 0

  init(_ port: EventPipe<Event>, pipes: [PipeEnds], log: NodeLog) {
    self.port = port.name ?? ""
    if let encode = port.encode {
      self.encode = encode
    } else {
      // Only the loop's thread uses the codec.
      nonisolated(unsafe) let codec = EventCodec<Event>(isSynthesized: Event._isSynthesizedCodable)
      encode = { try codec.encode($0, into: &$1) }
    }
    self.log = log
    connect(to: pipes)
  }

  func connect(to ends: [PipeEnds]) {
    pipes = ends.filter { !$0.isSharded }.flatMap(\.shardPipes)
    shardedPipes = ends.filter(\.isSharded)
  }

  var isFull: Bool { pipes.contains(where: \.isFull) || shardedPipes.contains(where: \.isFull) }

  func enqueue(_ event: Event) {
    if pipes.isEmpty, shardedPipes.isEmpty {
      discardedCount += 1
      if discardedCount == 1 {
        log.warning(
          "port '\(port)' is not connected to a pipe; events sent to the port are "
            + "discarded")
      }
    }
    // Iterates over the indices, because a loop over the array would retain the array for each
    // event.
    for index in pipes.indices { pipes[index].enqueue { try encode(event, &$0) } }
    for index in shardedPipes.indices { shardedPipes[index].enqueue { try encode(event, &$0) } }
  }
}

/// A rule of the topology: when the machine enters a state, an event made from the state is sent
/// into a pipe.
struct StateRule {
  /// The index of the state's case among the cases of the state's type.
  let stateTag: Int
  private let template: PayloadTemplate

  /// - Parameter pipe: The name of the pipe through which the rule sends events.
  init(
    _ rule: NodeConfiguration.Rule, pipe: String, states: [CaseDescription]
  ) throws {
    guard let tag = states.firstIndex(where: { $0.name == rule.when }) else {
      throw NodeSetupError("pipe '\(pipe)': no such state '\(rule.when ?? "")'")
    }
    self.stateTag = tag
    template = try PayloadTemplate(rule.send)
  }

  /// Returns the event as JSON. `state` is called only if the event uses a part of the state.
  func event(of key: InstanceKey? = nil, _ state: () -> [UInt8]) -> [UInt8] {
    template.constant ?? template.render(state: state(), key: key?.text)
  }
}
