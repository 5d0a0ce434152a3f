import PipeJournal
import PipeMachines
import PipeWire

/// The pipes that lead from composites: takes what the nodes tell of their steps, and sends what follows
/// from it. What they tell is recorded when it is received, which they wait for; how far they have got, with the
/// events that were sent.
final class CoordinatorRules {
  /// Who tells what has become of a transaction.
  typealias Participants = (TransactionID) -> [String]?

  private let log: NodeLog
  private let outs: [String: OutPipe]
  private let ins: [(pipe: InPipe, node: String)]
  private var steps: CompositeSteps
  /// What was received and is not taken, each under its place among all.
  private var received = PostponedRecords()
  private var rules: CompositeRules
  /// The nodes that have moved since the last record.
  private(set) var moved: Set<String> = []
  private var waits = StepWaits()
  /// How often no state could be made of a composite's nodes.
  private(set) var failures: UInt64 = 0

  /// Steps taken before the loop looks at its sockets again. Unit: steps.
  private static let stepsPerTurn = 512

  /// Makes the part of a coordinator that is for pipes from its composites; `nil` where there are none.
  /// - Parameters:
  ///   - recorded: What the journal has of how far nodes have got, by their names.
  ///   - consumed: What it has of their pipes.
  init?(
    outs: [(NodeConfiguration.Out, OutPipe)], ins: [InPipe], _ plan: CoordinatorPlan,
    projections: [String: CompositeStates.Projection], recorded: [String: [UInt8]],
    consumed: [String: JournalContents.Consumed], log: NodeLog
  ) throws {
    guard !outs.isEmpty else { return nil }
    self.log = log
    self.outs = Dictionary(outs.map { ($0.1.name, $0.1) }) { first, _ in first }
    let told = plan.steps ?? [:]
    self.ins = ins.compactMap { pipe in told[pipe.name].map { (pipe, $0) } }
    steps = CompositeSteps(
      of: Array(told.values), recorded: recorded.compactMapValues { CompositeSteps.Node($0) })
    rules = try CompositeRules(
      plan.conflictClass.composites,
      rules: outs.compactMap { out, pipe in out.rule.map { (pipe.name, $0) } },
      projections: projections, nodes: steps.nodes)
    for (pipe, _) in self.ins { pipe.acknowledgesAtOnce = true }
    restore(consumed)
  }

  private func restore(_ consumed: [String: JournalContents.Consumed]) {
    let events = consumed.flatMap { name, consumed in
      consumed.postponed.map { (pipe: name, id: $0.id, event: $0.event) }
    }
    for (name, id, event) in events.sorted(by: { $0.id < $1.id }) {
      received.restore(id)
      guard let node = ins.first(where: { $0.pipe.name == name })?.node else {
        // Of a node that is in none of the composites any more.
        received.finish(id)
        continue
      }
      let step = ToldStep(event) ?? ToldStep(.none, state: steps.nodes[node]?.state)
      steps.append(CompositeSteps.Told(step, place: id), of: node)
      hasArrived = true
    }
  }

  /// Takes what a pipe has brought, if it is one of these.
  /// - Returns: Whether it is.
  func accept(_ events: ArrivedEvents, from pipe: InPipe) throws(FrameError) -> Bool {
    guard let node = ins.first(where: { $0.pipe === pipe })?.node else { return false }
    try events.forEach { bytes, sequence in
      let event = Array(bytes)
      let place = received.nextNumber()
      received.add(place, pipe.name, sequence, event: event)
      pipe.keep(sequence, of: pipe.state.stream)
      let step = ToldStep(event)
      if step == nil {
        log.warning("pipe '\(pipe.name)': event \(sequence) tells no step, and is passed over")
      }
      // In the place of one that tells nothing is one that changes nothing.
      steps.append(
        CompositeSteps.Told(step ?? ToldStep(.none, state: steps.nodes[node]?.state), place: place),
        of: node)
      hasArrived = true
    }
    return true
  }

  /// A new process of a node, which has heard of no transaction, has joined.
  func began(_ node: String, after last: TransactionID) { steps.began(node, after: last) }

  /// Whether something has come since it was last seen that all that is there waits for others.
  private var hasArrived = false

  var hasWork: Bool { hasArrived && !isFull }

  /// Whether an event may find no room: no step is taken then.
  private var isFull: Bool { outs.values.contains(where: \.isFull) }

  /// Takes steps that are there, and sends what follows.
  func takeTurn(participants: Participants, last: TransactionID) {
    var budget = Self.stepsPerTurn
    while budget > 0, !isFull {
      guard let step = steps.next(participants: participants, last: last) else {
        hasArrived = false
        return
      }
      budget -= 1
      take(step)
    }
  }

  private func take(_ step: CompositeSteps.Step) {
    let events = rules.take(step, steps.nodes) { composite, error in
      failures += 1
      guard failures & (failures - 1) == 0 else { return }
      log.warning(
        "composite '\(composite)': its state cannot be made of those of its nodes, so that its pipes "
          + "send nothing: \(error) (\(failures) times by now)")
    }
    for event in events { outs[event.pipe]?.enqueue { $0 += event.event } }
    for (node, told) in step.told {
      moved.insert(node)
      received.finish(told.place)
      ins.first { $0.node == node }?.pipe.finishKept()
    }
  }

  /// The nodes whose steps are told.
  var nodes: [String] { ins.map(\.node) }

  /// The last transaction that a node has told of, or will not any more.
  func passed(by node: String) -> TransactionID { steps.passed(by: node) }

  // MARK: Who waits for whom

  /// Whether steps wait, and nobody looks for how long.
  var needsLook: Bool { !waits.isLooking && steps.hasWaiting }

  func beginLook() { waits.isLooking = true }

  /// Tells of who has waited for long, and for whom.
  func look(participants: Participants) {
    waits.isLooking = false
    for wait in waits.look(steps.waits(participants: participants), at: .now) {
      log.warning(wait.warning)
    }
  }

  func fill(_ status: inout NodeStatus) {
    status.ins += ins.map { $0.pipe.status(waiting: steps.waitingCount(of: $0.node)) }
  }

  // MARK: Records

  var hasUnrecorded: Bool { !moved.isEmpty || !received.isEmpty }

  func record(into journal: Journal) throws {
    try received.record(into: journal)
    for name in moved { try steps.nodes[name].map { try journal.component(name, $0.bytes) } }
  }

  func becameRecorded() {
    received.recorded()
    moved = []
  }
}

extension CompositeSteps.Node {
  /// As the journal has it; `nil` for anything else.
  fileprivate init?(_ bytes: [UInt8]) {
    guard let members = JSONTokens.members(of: bytes),
      let passed = members["passed"].flatMap(JSONTokens.label).flatMap(TransactionID.init)
    else { return nil }
    self.init(state: members["state"].map(Array.init), passed: passed)
  }

  fileprivate var bytes: [UInt8] {
    let state = state.map { Array(",\"state\":".utf8) + $0 } ?? []
    return Array("{\"passed\":\"\(passed)\"".utf8) + state + [UInt8(ascii: "}")]
  }
}
