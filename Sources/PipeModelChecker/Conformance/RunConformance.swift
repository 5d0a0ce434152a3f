import PipeMachines
import PipeSupervision
import PipeSystem
import PipeTopology
import PipeWire

/// A comparison of a recorded run with its topology.
///
/// The comparison checks each step against the machine, and each event that a pipe's receiver
/// consumed against the events that the pipe's sender sent. It also checks that all participants of
/// a synchronized event took their steps, in one common order.
///
/// Each line of the logs is read twice: by this program, and by the program of the line's node.
package struct RunConformance {
  private let run: RecordedRun
  private let loaded: LoadedTopology
  private let answerTimeout: Duration
  private var report = ConformanceReport()
  private var scans: [String: NodeScan] = [:]

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
      FileSystem.contents(of: file, limit: .max)
        == FileSystem.contents(of: "\(run.directory)/\(RunDirectory.topologyFile)", limit: .max)
    else { throw RecordedRunError.otherTopology(file: file, run: run.directory) }
    return try LoadedTopology.load(.file(file), name: run.description.topology)
  }

  package mutating func check() throws -> ConformanceReport {
    report.unrecordedNodes = loaded.topology.nodes.map(\.name)
      .filter { run.logsByNode[$0] == nil }
    report.changedPrograms = loaded.changedPrograms(since: run.description)
    scans = try run.scan(loaded)
    for (_, scan) in scans.sorted(by: { $0.key < $1.key }) {
      for torn in scan.tornLines {
        report.tornLines.append("\(scan.logs[torn.log].name):\(torn.line)")
      }
      for (code, place, message) in scan.problems { report.add(code, scan, place, message) }
    }
    for node in loaded.topology.nodes { try checkSteps(of: node) }
    for pipe in loaded.pipes { checkEvents(of: pipe) }
    for group in loaded.conflictClasses { checkTransactions(of: group) }
    return report
  }

  // MARK: Checking the steps of nodes

  private mutating func checkSteps(of node: NodeSpecification) throws(EvaluatorError) {
    guard let scan = scans[node.name],
      let replay = LogReplay(node, of: loaded, answerTimeout: answerTimeout)
    else { return }
    for (index, log) in scan.logs.enumerated() {
      let (steps, crash) = try replay.run(log.path, through: scan.lastLines[index])
      report.steps += steps.steps
      report.unverifiedSteps += steps.unverified
      for difference in steps.differences {
        report.add(
          difference.kind == .step ? .otherStep : .otherEvents, scan,
          NodeScan.Place(log: index, line: difference.line, version: difference.version),
          difference.message)
      }
      report.add(unlisted: steps.count - steps.differences.count)
      guard let crash else { continue }
      // The version before the step that ended the process.
      let version = log.header.version + UInt64(steps.steps)
      report.add(
        .otherStep, scan, NodeScan.Place(log: index, line: crash.line, version: version + 1),
        "the machine's step ends the process, and the steps after it are not compared: "
          + crash.exit)
    }
  }

  // MARK: Checking the events of pipes

  /// Compares the events that the sender of a pipe has sent with the events that the receiver of
  /// the pipe has consumed.
  private mutating func checkEvents(of pipe: PipeSpecification) {
    guard let receiver = scans[pipe.receiver] else { return }
    let received = receiver.events(of: pipe.name)
    guard let sender = scans[pipe.sender] else {
      return checkMissingLog(of: pipe.sender, pipe, receiver, received)
    }
    let isDurable = loaded.topology.durability(of: pipe) != .volatile
    let sent = sender.events(of: pipe.name).sent
    // A durable event that is sent again after a kill keeps its number, so the last occurrence
    // counts.
    var sentEvents: [NodeScan.EventID: Int] = [:]
    sentEvents.reserveCapacity(sent.count)
    for (index, event) in sent.enumerated() { sentEvents[event.id] = index }
    var consumed: Set<NodeScan.EventID> = []
    consumed.reserveCapacity(received.consumed.count)
    var highest: [UInt64: NodeScan.PipeEvent] = [:]
    for event in received.consumed {
      report.events += 1
      if event.id.number > highest[event.id.stream]?.id.number ?? 0 {
        highest[event.id.stream] = event
      }
      guard let index = sentEvents[event.id] else {
        report.add(
          .unknownEvent, receiver, event.place,
          "the node consumed event \(event.id.number) of pipe '\(pipe.name)', but node "
            + "'\(pipe.sender)' has not sent this event")
        continue
      }
      compare(event, of: receiver, with: sent[index], of: sender, in: pipe)
      if !consumed.insert(event.id).inserted, isDurable {
        report.add(
          .repeatedEvent, receiver, event.place,
          "the node consumed event \(event.id.number) of pipe '\(pipe.name)' a second time")
      }
    }
    guard isDurable else { return }
    for event in sent {
      guard !consumed.contains(event.id), !received.possiblyConsumed.contains(event.id),
        let last = highest[event.id.stream], event.id.number < last.id.number
      else { continue }
      // Reports the event only once, even if the event was sent several times.
      consumed.insert(event.id)
      report.add(
        .lostEvent, receiver, last.place,
        "the node consumed event \(last.id.number) of pipe '\(pipe.name)', but not event "
          + "\(event.id.number), " + sender.text(event.text, of: event.place.log).text)
    }
  }

  private mutating func compare(
    _ event: NodeScan.PipeEvent, of receiver: NodeScan, with sent: NodeScan.PipeEvent,
    of sender: NodeScan, in pipe: PipeSpecification
  ) {
    guard event.hash != sent.hash, !event.text.isEmpty else { return }
    // Equal events can have different hashes, for example if their JSON has different escapes.
    let own = receiver.text(event.text, of: event.place.log)
    let other = sender.text(sent.text, of: sent.place.log)
    guard own != other else { return }
    report.add(
      .unknownEvent, receiver, event.place,
      "the node consumed \(own.text) as event \(event.id.number) of pipe '\(pipe.name)', but node "
        + "'\(pipe.sender)' has sent \(other.text)")
  }

  private mutating func checkMissingLog(
    of sender: String, _ pipe: PipeSpecification, _ receiver: NodeScan,
    _ received: NodeScan.PipeEvents
  ) {
    guard loaded.isRecorded(sender), let event = received.consumed.first else { return }
    report.add(
      .missingLog, receiver, event.place,
      "the node consumed event \(event.id.number) of pipe '\(pipe.name)', but the run has no log "
        + "of node '\(sender)', '\(sender).1\(RunDirectory.stepLogSuffix)'")
  }

  // MARK: Checking synchronized events

  private typealias Step = (scan: NodeScan, step: NodeScan.TransactionStep)

  private mutating func checkTransactions(of group: ConflictClassPlan) {
    var steps: [TransactionID: [String: Step]] = [:]
    var order: [TransactionID: Set<TransactionID>] = [:]
    for node in group.participants {
      guard let scan = scans[node] else { continue }
      var last: TransactionID?
      for step in scan.steps {
        steps[step.id, default: [:]][node] = (scan, step)
        if let last { order[last, default: []].insert(step.id) }
        last = step.id
      }
    }
    let vectors = Set(group.composites.flatMap(\.vectors))
    var candidatesByEvent: [String: [Set<String>]] = [:]
    for vector in vectors {
      candidatesByEvent[vector.event, default: []].append(Set(vector.participants))
    }
    for (transaction, taken) in steps.sorted(by: { $0.key < $1.key }) {
      report.transactions += 1
      guard let (scan, step) = taken.min(by: { $0.key < $1.key })?.value,
        let event = scan.text(step.text, of: step.place.log).caseName
      else { continue }
      let nodes = Set(taken.keys)
      let candidates = (candidatesByEvent[event] ?? []).filter { $0.contains(scan.node) }
      if candidates.contains(nodes) { continue }
      let missing =
        candidates.map { $0.subtracting(nodes) }.min { $0.count < $1.count } ?? []
      if let lost = missing.sorted().first(where: { scans[$0] == nil && loaded.isRecorded($0) }) {
        report.add(
          .missingLog, scan, step.place,
          "the node took the synchronized event '\(event)' (transaction \(transaction)), but the "
            + "run has no log of node '\(lost)', '\(lost).1\(RunDirectory.stepLogSuffix)'")
        continue
      }
      // A participant whose last process was killed may take the step when it restarts.
      if !missing.isEmpty, missing.allSatisfy(mayTakeLater) { continue }
      report.add(
        .tornTransaction, scan, step.place,
        "the synchronized event '\(event)' (transaction \(transaction)) was taken by "
          + "\(Self.list(nodes)), but not by \(Self.list(missing))")
    }
    checkOrder(order, steps)
  }

  private static func list(_ nodes: Set<String>) -> String {
    nodes.sorted().map { "'\($0)'" }.joined(separator: ", ")
  }

  /// Returns whether the node may take a step after the end of the recorded run, because its last
  /// process has not ended gracefully.
  private func mayTakeLater(_ node: String) -> Bool { scans[node]?.hasEnded != true }

  /// Checks that the nodes have taken the synchronized events in one common order.
  private mutating func checkOrder(
    _ order: [TransactionID: Set<TransactionID>], _ steps: [TransactionID: [String: Step]]
  ) {
    var counts: [TransactionID: Int] = [:]
    for next in order.values.joined() { counts[next, default: 0] += 1 }
    var ready = steps.keys.filter { counts[$0] == nil }
    var done = 0
    while let transaction = ready.popLast() {
      done += 1
      for next in order[transaction] ?? [] {
        counts[next]! -= 1
        if counts[next] == 0 { ready.append(next) }
      }
    }
    guard done < steps.count,
      let first = counts.filter({ $0.value > 0 }).keys.min(),
      let (scan, step) = steps[first]?.min(by: { $0.key < $1.key })?.value
    else { return }
    report.add(
      .contradictoryOrder, scan, step.place,
      "the nodes have taken transaction \(first) and others in contradictory orders")
  }
}

extension RecordedRun {
  /// Reads the logs of all nodes.
  func scan(_ loaded: LoadedTopology) throws(RecordedRunError) -> [String: NodeScan] {
    var scans: [String: NodeScan] = [:]
    for (node, logs) in logsByNode {
      do throws(StepLogError) {
        scans[node] = try NodeScan(
          node, logs, isDurable: loaded.topology.durability(of: node) != .volatile)
      } catch { throw .invalidLog(error) }
    }
    return scans
  }
}

extension LoadedTopology {
  /// Returns whether each process of a node writes a step log in a recorded run.
  func isRecorded(_ node: String) -> Bool {
    topology.nodes.first { $0.name == node }.map { $0.machine != nil && $0.key == nil } ?? false
  }

  /// Returns the programs whose files have changed since a run was recorded.
  package func changedPrograms(since run: RunDescription) -> [String] {
    programs.filter { name, path in
      run.programs?[name].map { $0 != ProgramFingerprint.make(of: path) } ?? false
    }.keys.sorted()
  }
}
