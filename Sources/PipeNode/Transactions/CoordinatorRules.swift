import PipeJournal
import PipeMachines
import PipeWire

/// The outbound pipes of composites. Receives the step reports of nodes, and sends the events that
/// result from the steps.
///
/// Each report is recorded immediately, because its node waits for the acknowledgement. The
/// progress of the nodes is recorded together with the events that the pipes have sent.
final class CoordinatorRules {
  /// Returns the participants of a transaction; `nil` if they are forgotten.
  typealias Participants = (TransactionID) -> [String]?

  private let log: NodeLog
  /// The pipes, by their names in the topology file.
  private let outs: [String: PipeEnds]
  private let ins: [(pipe: InPipe, node: String)]
  private var steps: CompositeSteps
  /// The changes to the journal's list of reports whose steps are not processed yet. The id of a
  /// report is its index.
  private var received = PostponedRecords()
  private var rules: CompositeRules
  /// The nodes whose progress has changed since the last record.
  private(set) var changedNodes: Set<String> = []
  private var waits = StepWaits()
  /// The number of times that a composite's state could not be computed from its nodes' states.
  private(set) var failureCount: UInt64 = 0

  /// The maximum number of steps before the loop polls its sockets again. Unit: steps.
  private static let stepsPerTurn = 512

  /// Creates the rules. Returns `nil` if none of the composites has an outbound pipe.
  /// - Parameters:
  ///   - recorded: The recorded progress of the nodes, by name.
  ///   - consumed: The progress of the inbound pipes in the journal, by name.
  init?(
    outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe], _ plan: CoordinatorPlan,
    projections: [String: CompositeStates.Projection], recorded: [String: [UInt8]],
    consumed: [String: JournalContents.InPipeProgress], log: NodeLog
  ) throws {
    guard !outs.isEmpty else { return nil }
    self.log = log
    let ends = PipeEnds.grouped(outs)
    self.outs = Dictionary(ends.map { ($0.1.name, $0.1) }) { first, _ in first }
    let reported = plan.reportingNodesByPipe ?? [:]
    self.ins = ins.compactMap { pipe in reported[pipe.name].map { (pipe, $0) } }
    steps = CompositeSteps(
      of: Array(reported.values), recorded: recorded.compactMapValues { CompositeSteps.Node($0) })
    rules = try CompositeRules(
      plan.conflictClass.composites,
      rules: ends.compactMap { out, pipe in out.rule.map { (pipe.name, $0) } },
      projections: projections, nodes: steps.nodesByName)
    for (pipe, _) in self.ins { pipe.acknowledgesAtOnce = true }
    restore(consumed)
  }

  private func restore(_ consumed: [String: JournalContents.InPipeProgress]) {
    let events = consumed.flatMap { name, consumed in
      consumed.postponedEvents.map { (pipe: name, id: $0.id, event: $0.event) }
    }
    for (name, id, event) in events.sorted(by: { $0.id < $1.id }) {
      received.restore(id)
      guard let node = ins.first(where: { $0.pipe.name == name })?.node else {
        // The node no longer belongs to any of the composites, so its report is dropped.
        received.finish(id)
        continue
      }
      let step = StepReport(event) ?? StepReport(.none, state: steps.nodesByName[node]?.state)
      steps.append(CompositeSteps.Report(step, index: id), of: node)
      hasNewReports = true
    }
  }

  /// Handles the events that a pipe has delivered, if the pipe carries step reports.
  /// - Parameter lastBeforeStart: Returns the last transaction that earlier processes of a node may
  ///   have applied, if the first report of the node's present process arrives now.
  /// - Returns: Whether the pipe carries step reports.
  func accept(
    _ events: ArrivedEvents, from pipe: InPipe, lastBeforeStart: (String) -> TransactionID
  ) throws(FrameError) -> Bool {
    guard let node = ins.first(where: { $0.pipe === pipe })?.node else { return false }
    try events.forEach { bytes, sequence in
      var event = Array(bytes)
      var step = StepReport(event)
      if step?.entry == .first {
        // The report may be processed much later, by another process of this coordinator, when the
        // node has applied further transactions.
        step?.transaction = lastBeforeStart(node)
        event = []
        step?.write(into: &event)
      }
      let index = received.nextNumber()
      received.add(index, pipe.name, sequence, event: event)
      pipe.hold(sequence, of: pipe.state.stream)
      if step == nil {
        log.warning("pipe '\(pipe.name)': event \(sequence) is not a step report, and is ignored")
      }
      // An event that is not a step report is replaced by a report that changes nothing.
      steps.append(
        CompositeSteps.Report(
          step ?? StepReport(.none, state: steps.nodesByName[node]?.state), index: index),
        of: node)
      hasNewReports = true
    }
    return true
  }

  /// Whether a report has arrived since the last search in which no step was ready.
  private var hasNewReports = false

  var hasWork: Bool { hasNewReports && !isFull }

  /// Whether a pipe is full. Steps then wait, because they may send events through this pipe.
  private var isFull: Bool { outs.values.contains(where: \.isFull) }

  /// Processes the steps whose reports are complete, and sends the resulting events.
  func takeTurn(participants: Participants, last: TransactionID) {
    var budget = Self.stepsPerTurn
    while budget > 0, !isFull {
      guard let step = steps.next(participants: participants, last: last) else {
        hasNewReports = false
        return
      }
      budget -= 1
      process(step)
    }
  }

  private func process(_ step: CompositeSteps.Step) {
    let events = rules.take(step, steps.nodesByName) { composite, error in
      failureCount += 1
      guard failureCount & (failureCount - 1) == 0 else { return }
      log.warning(
        "composite '\(composite)': the state cannot be computed from the states of its nodes, so "
          + "its pipes send nothing: \(error) (\(failureCount) times so far)")
    }
    for event in events { outs[event.pipe]?.pipe(for: event.event).enqueue { $0 += event.event } }
    for (node, reported) in step.reported {
      changedNodes.insert(node)
      received.finish(reported.index)
      ins.first { $0.node == node }?.pipe.releaseHeld()
    }
  }

  /// The nodes that report their steps.
  var nodes: [String] { ins.map(\.node) }

  /// Returns the transaction up to which the reports of a node are complete: the node has reported
  /// all its transactions, or will no longer report them.
  func completeThrough(of node: String) -> TransactionID { steps.completeThrough(of: node) }

  // MARK: Waits between nodes

  /// Whether step reports wait to be processed although no check of the waits is scheduled.
  var needsWaitCheck: Bool { !waits.isCheckScheduled && steps.hasWaiting }

  func beginWaitCheck() { waits.isCheckScheduled = true }

  /// Logs the nodes that have waited for a long time, and the nodes for whose reports they wait.
  func checkWaits(participants: Participants) {
    waits.isCheckScheduled = false
    for wait in waits.checkWaits(steps.waits(participants: participants), at: .now) {
      log.warning(wait.warning)
    }
  }

  func fill(_ status: inout NodeStatus) {
    status.ins += ins.map { $0.pipe.status(waiting: steps.waitingCount(of: $0.node)) }
  }

  // MARK: Recording reports and progress

  var hasUnrecordedChanges: Bool { !changedNodes.isEmpty || !received.isEmpty }

  func record(into journal: Journal) throws {
    try received.record(into: journal)
    for name in changedNodes {
      try steps.nodesByName[name].map { try journal.recordComponent(name, $0.bytes) }
    }
  }

  func didRecord() {
    received.didRecord()
    changedNodes = []
  }
}

extension CompositeSteps.Node {
  /// Decodes the progress of a node from the bytes in the journal; `nil` if the bytes are invalid.
  fileprivate init?(_ bytes: [UInt8]) {
    guard let members = JSONTokens.members(of: bytes),
      let completeThrough = members["passed"].flatMap(JSONTokens.label).flatMap(TransactionID.init)
    else { return nil }
    self.init(state: members["state"].map(Array.init), completeThrough: completeThrough)
  }

  fileprivate var bytes: [UInt8] {
    let state = state.map { Array(",\"state\":".utf8) + $0 } ?? []
    return Array("{\"passed\":\"\(completeThrough)\"".utf8) + state + [UInt8(ascii: "}")]
  }
}
