import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// Compares a recorded run with its topology: each step with the machine, the events of each pipe at
/// its two ends, and the steps of each synchronized event.
///
/// The comparison reads each line of the logs once.
package struct RunConformance {
  private let run: RecordedRun
  private let loaded: LoadedTopology
  private let answerTimeout: Duration
  private var report = ConformanceReport()
  /// The lines of each node that belong to the run, without steps that a kill has undone.
  private var linesByNode: [String: [StepLogLine]] = [:]
  /// The lines after the last step of killed processes, by node: refused and ignored events, and the
  /// events of the initial state. The journal may have a record of them, or not.
  private var uncertainLinesByNode: [String: [StepLogLine]] = [:]

  /// - Parameter answerTimeout: The time limit for one answer of a program.
  package init(
    _ run: RecordedRun, _ loaded: LoadedTopology, answerTimeout: Duration = .seconds(10)
  ) {
    self.run = run
    self.loaded = loaded
    self.answerTimeout = answerTimeout
  }

  /// Reads the topology of a run.
  package static func topology(of run: RecordedRun) throws -> LoadedTopology {
    let file = run.description.file
    guard
      FileSystem.contents(of: file)
        == FileSystem.contents(of: "\(run.directory)/\(RunDirectory.topologyFile)")
    else { throw RecordedRunError.otherTopology(file: file, run: run.directory) }
    return try LoadedTopology.load(.file(file), name: run.description.topology)
  }

  package mutating func check() throws(EvaluatorError) -> ConformanceReport {
    report.unrecordedNodes = loaded.topology.nodes.map(\.name)
      .filter { run.logsByNode[$0] == nil }
    for (node, logs) in run.logsByNode.sorted(by: { $0.key < $1.key }) {
      linesByNode[node] = lines(of: node, logs)
    }
    for node in loaded.topology.nodes { try checkSteps(of: node) }
    for pipe in loaded.pipes { checkEvents(of: pipe) }
    for group in loaded.conflictClasses { checkTransactions(of: group) }
    return report
  }

  // MARK: Processes

  /// Returns the lines of all processes of a node, without the lines at the end of a killed process
  /// that its journal does not have.
  private mutating func lines(of node: String, _ logs: [RecordedRun.Log]) -> [StepLogLine] {
    let isDurable = loaded.topology.durability(of: node) != .volatile
    var result: [StepLogLine] = []
    for (index, log) in logs.enumerated() {
      var lines = log.lines[...]
      if isDurable, index + 1 < logs.count {
        let next = logs[index + 1]
        while let last = lines.last, last.version > next.first.version || !last.isStep {
          lines = lines.dropLast()
          if last.version <= next.first.version {
            uncertainLinesByNode[node, default: []].append(last)
          }
        }
        let version = lines.last?.version ?? log.first.version
        if version < next.first.version {
          report.add(
            .missingSteps, next.beginning,
            "the process begins in version \(next.first.version), and the log of the process before "
              + "it, '\(log.path)', ends with version \(version)")
        }
      }
      checkOrder(of: lines, in: log)
      result += lines
    }
    return result
  }

  /// Checks that the steps of one process follow one another.
  private mutating func checkOrder(of lines: ArraySlice<StepLogLine>, in log: RecordedRun.Log) {
    var (state, count, version) = (log.first.state, UInt64(0), log.first.version)
    for line in lines where line.isStep {
      count += 1
      if line.index != count || line.version <= version {
        report.add(
          .missingSteps, line,
          "this is step \(line.index) of the process, and the log has \(count - 1) steps before it")
        count = line.index
      }
      if let from = line.from, from != state {
        report.add(
          .otherState, line,
          "the step begins in state \(from.text), and the previous step ends in \(state.text)")
      }
      version = line.version
      state = line.state ?? state
    }
  }

  // MARK: Steps

  private mutating func checkSteps(of node: NodeSpecification) throws(EvaluatorError) {
    guard let lines = linesByNode[node.name], let machine = node.machine,
      let path = loaded.programs[loaded.topology.program(of: node) ?? ""]
    else { return }
    let environment = ProcessEnvironment.current.merging(loaded.topology.environment(of: node)) {
      _, own in own
    }
    let outs = loaded.pipes.filter { $0.sender == node.name }.map { pipe in
      EvaluatorOutPipe(
        name: pipe.name, port: pipe.outPort,
        rule: pipe.eventTemplate.map { NodeConfiguration.Rule(when: pipe.enteredState, send: $0) })
    }
    let evaluator = StepReplay(
      node: node.name, machine: machine, parameters: node.parameters, outs: outs,
      path: path, environment: environment, answerTimeout: answerTimeout)
    for line in lines where line.isStep {
      report.steps += 1
      switch try evaluator.compare(line) {
      case .same: break
      case .unverified: report.unverifiedSteps += 1
      case .different(let code, let message): report.add(code, line, message)
      }
    }
  }

  // MARK: Pipes

  private struct EventID: Hashable {
    let stream: UInt64
    let number: UInt64
  }

  /// Compares the events that a pipe's sender has sent with the events that its receiver has consumed.
  private mutating func checkEvents(of pipe: PipeSpecification) {
    guard let sent = linesByNode[pipe.sender], let received = linesByNode[pipe.receiver] else {
      return
    }
    let isDurable = loaded.topology.durability(of: pipe) != .volatile
    var sentEvents: [EventID: JSONValue] = [:]
    for line in sent + (uncertainLinesByNode[pipe.sender] ?? []) {
      for event in line.sent ?? [] where event.pipe == pipe.name {
        sentEvents[EventID(stream: event.stream, number: event.number)] = event.event ?? .null
      }
    }
    var consumed: Set<EventID> = []
    var lines: [UInt64: (highest: UInt64, line: StepLogLine)] = [:]
    for line in received {
      guard let source = line.source, source.pipe == pipe.name, line.postponed != true else {
        continue
      }
      report.events += 1
      let id = EventID(stream: source.stream, number: source.number)
      if source.number > (lines[source.stream]?.highest ?? 0) {
        lines[source.stream] = (source.number, line)
      }
      guard let event = sentEvents[id] else {
        report.add(
          .unknownEvent, line,
          "the node consumed event \(source.number) of pipe '\(pipe.name)', and node "
            + "'\(pipe.sender)' has not sent it")
        continue
      }
      if let own = line.event ?? line.ignored, own != event {
        report.add(
          .unknownEvent, line,
          "the node consumed \(own.text) as event \(source.number) of pipe '\(pipe.name)', and node "
            + "'\(pipe.sender)' has sent \(event.text)")
      }
      if !consumed.insert(id).inserted, isDurable {
        report.add(
          .repeatedEvent, line,
          "the node consumed event \(source.number) of pipe '\(pipe.name)' a second time")
      }
    }
    guard isDurable else { return }
    let postponed = received.filter { $0.postponed == true }
    let possible = Set(
      (postponed + (uncertainLinesByNode[pipe.receiver] ?? [])).compactMap { line in
        line.source.flatMap {
          $0.pipe == pipe.name ? EventID(stream: $0.stream, number: $0.number) : nil
        }
      })
    for (id, event) in sentEvents.sorted(by: { $0.key.number < $1.key.number }) {
      guard !consumed.contains(id), !possible.contains(id), let (highest, line) = lines[id.stream],
        id.number < highest
      else { continue }
      report.add(
        .lostEvent, line,
        "the node consumed event \(highest) of pipe '\(pipe.name)', and not event \(id.number), "
          + event.text)
    }
  }

  // MARK: Synchronized events

  private mutating func checkTransactions(of group: ConflictClassPlan) {
    var lines: [TransactionID: [String: StepLogLine]] = [:]
    var order: [TransactionID: Set<TransactionID>] = [:]
    for node in group.participants {
      var last: TransactionID?
      for line in linesByNode[node] ?? [] where line.isStep {
        guard let transaction = line.transaction else { continue }
        lines[transaction, default: [:]][node] = line
        if let last { order[last, default: []].insert(transaction) }
        last = transaction
      }
    }
    let vectors = Set(group.composites.flatMap(\.vectors))
    for (transaction, taken) in lines.sorted(by: { $0.key < $1.key }) {
      report.transactions += 1
      guard let line = taken.sorted(by: { $0.key < $1.key }).first?.value,
        let event = line.event?.caseName
      else { continue }
      let candidates = vectors.filter { $0.event == event && $0.participants.contains(line.node) }
        .map { Set($0.participants) }
      if candidates.contains(Set(taken.keys)) { continue }
      let missing =
        candidates.map { $0.subtracting(taken.keys) }
        .min { $0.count < $1.count } ?? []
      // A participant that was killed last, and has not begun again, may take the step later.
      if !missing.isEmpty, missing.allSatisfy(mayTakeLater) { continue }
      let nodes = taken.keys.sorted().map { "'\($0)'" }.joined(separator: ", ")
      report.add(
        .tornTransaction, line,
        "the synchronized event '\(event)' (transaction \(transaction)) was taken by \(nodes), and not "
          + "by \(missing.sorted().map { "'\($0)'" }.joined(separator: ", "))")
    }
    checkOrder(order, lines)
  }

  /// Whether the log of the node's last process ends without the end of the process.
  private func mayTakeLater(_ node: String) -> Bool {
    run.logsByNode[node].map { $0.last?.hasEnded != true } ?? true
  }

  /// Checks that the nodes have taken the synchronized events in one common order.
  private mutating func checkOrder(
    _ order: [TransactionID: Set<TransactionID>],
    _ lines: [TransactionID: [String: StepLogLine]]
  ) {
    var counts: [TransactionID: Int] = [:]
    for next in order.values.joined() { counts[next, default: 0] += 1 }
    var ready = lines.keys.filter { counts[$0] == nil }
    var done = 0
    while let transaction = ready.popLast() {
      done += 1
      for next in order[transaction] ?? [] {
        counts[next]! -= 1
        if counts[next] == 0 { ready.append(next) }
      }
    }
    guard done < lines.count,
      let first = counts.filter({ $0.value > 0 }).keys.min(),
      let line = lines[first]?.values.min(by: { $0.node < $1.node })
    else { return }
    report.add(
      .contradictoryOrder, line,
      "the nodes have taken transaction \(first) and others in contradictory orders")
  }
}

extension RecordedRun.Log {
  /// The beginning of the process as a line.
  fileprivate var beginning: StepLogLine {
    StepLogLine(
      node: node, incarnation: incarnation, version: first.version, begins: first.state)
  }
}
