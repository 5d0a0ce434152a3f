import PipeMachines
import PipeSupport
import PipeWire

/// The pipes that start at a machine: the pipes of its ports, and the pipes that rules of the
/// topology feed.
final class MachineOutlets: PortBinder {
  private let log: NodeLog
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private var rules: [(rule: StateRule, pipe: OutPipe)] = []
  private var outs: [OutPipe] = []
  /// The pipes of rules and step reports that may be full, because they were sent into since the
  /// last check.
  @exclusivity(unchecked)
  private var possiblyFull: [OutPipe] = []
  /// The pipes that report each step to coordinators, and the part of the step that they report.
  @exclusivity(unchecked)
  private var stepReportPipes: [(OutPipe, NodeConfiguration.Steps)] = []
  /// The number of steps that were reported without their state.
  private var omittedStateCount: UInt64 = 0
  /// The pipes of the ports, by the names of the ports.
  private var pipesByPort: [String: [OutPipe]] = [:]
  /// The outlets that feed the ports' events into the pipes, by the names of the ports.
  private var outlets: [String: any AnyPortOutlet] = [:]

  init(log: NodeLog) { self.log = log }

  /// Connects the ports and the rules to their pipes. Called again for pipes that are added later.
  /// - Throws: `NodeSetupError` if the machine has no such port, or no such state.
  func connect(
    _ pairs: [(NodeConfiguration.Out, OutPipe)], _ ports: Ports, of machine: MachineDescription
  ) throws {
    outs += pairs.map(\.1)
    for (configuration, pipe) in pairs {
      if let port = configuration.port { pipesByPort[port, default: []].append(pipe) }
      if let rule = configuration.rule {
        rules.append((try StateRule(rule, pipe: pipe.name, states: machine.states), pipe))
        markPossiblyFull(pipe)
      }
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
      existing.pipes = pipes
    } else {
      let outlet = PortOutlet(pipe, pipes: pipes, log: log)
      outlets[name] = outlet
      pipe.bind(to: outlet)
    }
  }

  /// Reports each sent event to the watcher, with the name and the stream of its pipe, and its
  /// number; `nil` ends the reports.
  func watch(
    _ watcher: ((_ pipe: String, _ stream: UInt64, _ number: UInt64, ArraySlice<UInt8>) -> Void)?
  ) {
    // Pipes that report steps to coordinators are left out: their events are the steps themselves.
    for pipe in outs where !stepReportPipes.contains(where: { $0.0 === pipe }) {
      let (name, stream) = (pipe.name, pipe.state.stream)
      pipe.watch(watcher.map { watcher in { watcher(name, stream, $0, $1) } })
    }
  }

  /// Whether any pipe is full.
  var isFull: Bool { outs.contains { $0.isFull } }

  /// The names of the pipes that are full.
  var full: [String] { outs.filter(\.isFull).map(\.name) }

  /// Whether a durable pipe has this name.
  func hasDurable(_ name: String) -> Bool {
    outs.contains { $0.name == name && $0.state.isDurable }
  }

  var hasRules: Bool { !rules.isEmpty }

  /// Whether coordinators receive a report of each step.
  var reportsSteps: Bool { !stepReportPipes.isEmpty }

  /// Reports a step to the coordinators. A state that cannot be reported is left out, so that no
  /// coordinator waits for the step.
  /// - Parameters:
  ///   - state: The state as JSON, or the error that prevented encoding it.
  ///   - transaction: The synchronized event that led to the state.
  func reportStep(
    _ entry: StepReport.Entry, _ state: Result<[UInt8], any Error>,
    _ transaction: TransactionID? = nil
  ) {
    var reportedState: [UInt8]?
    switch state {
    case .success(let bytes):
      reportedState =
        StepReport.obstacle(toReporting: bytes).map { logOmittedState(because: $0) } == nil
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

  /// Whether a pipe of a rule or of step reports is full. The next step then waits, since it may
  /// send into that pipe.
  var isRulePipeFull: Bool {
    while let pipe = possiblyFull.last {
      if pipe.isFull { return true }
      pipe.isPossiblyFull = false
      possiblyFull.removeLast()
    }
    return false
  }

  /// Marks a pipe as possibly full: it was sent into, or a journal may have filled it.
  private func markPossiblyFull(_ pipe: OutPipe) {
    guard !pipe.isPossiblyFull else { return }
    pipe.isPossiblyFull = true
    possiblyFull.append(pipe)
  }

  /// Sends the events that the rules make of the state with this tag.
  /// - Parameters:
  ///   - key: The key of the instance, for `$key`; `nil` in a node without instances.
  ///   - state: Returns the state as JSON; called only if a rule uses a part of it.
  @export(interface)
  func fire(_ tag: Int, of key: InstanceKey? = nil, _ state: () -> [UInt8]) {
    var json: [UInt8]?
    for (rule, pipe) in rules where rule.tag == tag {
      let event = rule.event(of: key) { () -> [UInt8] in
        let bytes = json ?? state()
        json = bytes
        return bytes
      }
      pipe.enqueue { $0.append(contentsOf: event) }
      markPossiblyFull(pipe)
    }
  }

  /// The number of events sent through ports that no pipe starts from.
  var discarded: UInt64 { outlets.values.reduce(0) { $0 + $1.discarded } }
}

/// The outlet of a port, whatever the type of its events is.
protocol AnyPortOutlet: AnyObject {
  /// The pipes that the port feeds.
  var pipes: [OutPipe] { get set }
  /// The number of events sent while no pipe started from the port.
  var discarded: UInt64 { get }
}

/// Feeds the events of a machine's port into the pipes that the topology connects to it.
// Unchecked: steps enqueue events and ask for fullness, and only the loop's thread takes steps.
final class PortOutlet<Event: MachineEvent>: PipeOutlet, AnyPortOutlet, @unchecked Sendable {
  private let port: String
  @exclusivity(unchecked)
  var pipes: [OutPipe]
  private let log: NodeLog
  private let encode: @Sendable (Event, inout [UInt8]) throws -> Void
  // A run-time exclusivity check would slow down each event, and only the loop's thread has access.
  @exclusivity(unchecked)
  private(set) var discarded: UInt64 = 0

  init(_ port: EventPipe<Event>, pipes: [OutPipe], log: NodeLog) {
    self.port = port.name ?? ""
    if let encode = port.encode {
      self.encode = encode
    } else {
      // Only the host's one thread uses the codec.
      nonisolated(unsafe) let codec = EventCodec<Event>(isSynthesized: Event._isSynthesizedCodable)
      encode = { try codec.encode($0, into: &$1) }
    }
    self.pipes = pipes
    self.log = log
  }

  var isFull: Bool { pipes.contains(where: \.isFull) }

  func enqueue(_ event: Event) {
    if pipes.isEmpty {
      discarded += 1
      if discarded == 1 {
        log.warning(
          "port '\(port)' is not connected to a pipe; events sent to the port are "
            + "discarded")
      }
    }
    // Iterates by index: a loop over the array would retain it for each event.
    for index in pipes.indices { pipes[index].enqueue { try encode(event, &$0) } }
  }
}

/// A rule of the topology: when the machine enters a state, an event made from the state is sent
/// into a pipe.
struct StateRule {
  /// The case of the state.
  let tag: Int
  private let template: PayloadTemplate

  /// - Parameter pipe: The name of the pipe that the rule feeds.
  init(
    _ rule: NodeConfiguration.Rule, pipe: String, states: [CaseDescription]
  ) throws {
    guard let tag = states.firstIndex(where: { $0.name == rule.when }) else {
      throw NodeSetupError("pipe '\(pipe)': no such state '\(rule.when ?? "")'")
    }
    self.tag = tag
    template = try PayloadTemplate(rule.send)
  }

  /// Returns the event as JSON. `state` is called only if the event uses a part of the state.
  func event(of key: InstanceKey? = nil, _ state: () -> [UInt8]) -> [UInt8] {
    template.constant ?? template.render(state: state(), key: key?.text)
  }
}
