import PipeMachines
import PipeNode
import PipeWire

/// A node with a machine that accepts synchronized events while it is open, and a journal.
final class SimulatedParticipant {
  /// An entry of the journal. Only the journal survives a crash.
  enum Entry {
    case record(ParticipantRecord)
    /// A step of the node's own: it opens or closes.
    case own(isOpen: Bool)
  }

  let name: String
  private(set) var journal: [Entry] = []
  /// The records that are not durable yet, in order.
  private(set) var pending: [ParticipantRecord] = []
  private(set) var machine: ParticipantStateMachine?
  private(set) var version: UInt64 = 0
  private(set) var isOpen = true
  private(set) var queryTimerRuns = false
  private(set) var problems: [String] = []
  /// The number of times that the participant was restored in the prepared phase.
  private(set) var inDoubt = 0
  private(set) var recordCount = 0
  /// Whether its transition is asynchronous.
  let isSlow: Bool
  /// The version of the model. It is ahead of `version` after a step was evaluated and not
  /// committed.
  private var modelVersion: UInt64 = 0
  /// The transitions that have not returned. A transition that timed out may still return.
  private(set) var running: [TransactionID] = []
  /// The transactions that this process has evaluated, and the transactions that timed out.
  private var evaluated: Set<TransactionID> = []
  private var overdue: Set<TransactionID> = []
  /// The transaction whose time limit is running.
  private(set) var limited: TransactionID?
  private(set) var overdueCount = 0
  /// Acknowledgments that wait for the next message. A yes vote implies them.
  private var heldAcknowledgements: Set<TransactionID> = []

  init(name: String, isSlow: Bool = false) {
    self.name = name
    self.isSlow = isSlow
    machine = ParticipantStateMachine()
  }

  /// Loses everything except the journal, which may contain some of the pending records.
  func crash(using random: inout some RandomNumberGenerator) {
    let written = pending.prefix(Int.random(in: 0...pending.count, using: &random))
    journal += written.map(Entry.record)
    pending = []
    machine = nil
    queryTimerRuns = false
    running = []
    evaluated = []
    overdue = []
    limited = nil
    heldAcknowledgements = []
  }

  /// Restores the participant from its journal.
  func restart() -> [ParticipantMessage] {
    var prepared: PreparedStep?
    var applied = TransactionID.zero
    version = 0
    isOpen = true
    for entry in journal {
      switch entry {
      case .own(let isOpen):
        version += 1
        self.isOpen = isOpen
      case .record(.prepared(let step)): prepared = step
      case .record(.step(let step)):
        version += 1
        applied = step.transaction
      }
    }
    let machine = ParticipantStateMachine(prepared: prepared, applied: applied, version: version)
    if !machine.acceptsInputs { inDoubt += 1 }
    modelVersion = version
    self.machine = machine
    return perform(machine.start())
  }

  func connected() -> [ParticipantMessage] { perform(machine?.connected() ?? []) }

  /// Notices while sending that the connection is lost.
  func disconnected() -> [ParticipantMessage] { perform(machine?.disconnected() ?? []) }

  func received(_ message: CoordinatorMessage) -> [ParticipantMessage] {
    switch message {
    case .prepare(let transaction, let event, let wantsChange, _):
      let answers = finishTaking()
      return answers
        + perform(
          machine?.prepare(
            transaction, event: event, wantsChange: wantsChange, evaluate: evaluate) ?? [])
    case .commit(let transaction): return perform(machine?.commit(transaction) ?? [])
    case .abort(let transaction): return perform(machine?.abort(transaction) ?? [])
    case .deliver(let transaction, let event):
      let answers = finishTaking()
      return answers
        + perform(machine?.deliver(transaction, event: event, evaluate: evaluate) ?? [])
    }
  }

  /// Makes the records of the step in progress durable.
  private func finishTaking() -> [ParticipantMessage] {
    var answers: [ParticipantMessage] = []
    while machine?.isTakingStep == true, !pending.isEmpty { answers += record() }
    return answers
  }

  func queryTimerFired() -> [ParticipantMessage] {
    queryTimerRuns = false
    return perform(machine?.queryTimerFired() ?? [])
  }

  /// Makes the oldest pending record durable.
  func record() -> [ParticipantMessage] {
    let record = pending.removeFirst()
    journal.append(.record(record))
    return perform(machine?.recorded(record) ?? [])
  }

  /// Takes a step of its own, if that is allowed.
  func step(isOpen: Bool) -> [ParticipantMessage] {
    guard machine?.acceptsInputs == true else { return [] }
    checkModel()
    journal.append(.own(isOpen: isOpen))
    version += 1
    modelVersion = version
    self.isOpen = isOpen
    return perform(machine?.stepped() ?? [])
  }

  private func evaluate(_ event: [UInt8]) throws(ParticipantRefusal) -> ParticipantAnswer {
    guard isOpen else {
      throw .refused(.noTransition, version: version, state: Array("\"closed\"".utf8))
    }
    return isSlow
      ? .takesTime(limit: .seconds(1), version: version, state: open)
      : .moves(ParticipantMove(version: version + 1, state: open))
  }

  private var open: [UInt8] { Array("\"open\"".utf8) }

  /// Lets a transition return or throw.
  func endTransition() -> [ParticipantMessage] {
    let transaction = running.removeFirst()
    let result: Result<ParticipantMove, ParticipantRefusal> =
      transaction.sequence.isMultiple(of: 7)
      ? .failure(.refused(.thrown("seven"), version: version, state: open))
      : .success(ParticipantMove(version: version + 1, state: open))
    return perform(machine?.evaluated(transaction, result) ?? [])
  }

  /// Lets the limit of the running transition pass.
  func passLimit() -> [ParticipantMessage] {
    guard let transaction = limited else { return [] }
    limited = nil
    overdue.insert(transaction)
    overdueCount += 1
    return perform(machine?.limitPassed(transaction) ?? [])
  }

  /// Checks that a free participant and its model are at the same version.
  func checkModel() {
    guard machine?.acceptsInputs == true, modelVersion != version else { return }
    problems.append("\(name) stands at version \(version), and its model at \(modelVersion)")
    modelVersion = version
  }

  private func perform(_ actions: [ParticipantStateMachine.Action]) -> [ParticipantMessage] {
    var messages: [ParticipantMessage] = []
    for action in actions {
      switch action {
      case .record(let record):
        pending.append(record)
        recordCount += 1
      case .send(let message):
        if case .yes(let transaction, _) = message, overdue.contains(transaction) {
          problems.append("\(name) has promised \(transaction) after its time was up")
        }
        messages += withHeldAcknowledgements(with: message)
      case .enter(let step):
        if step.move.version != version + 1 {
          problems.append("\(name) went from version \(version) to \(step.move.version)")
        }
        if evaluated.contains(step.transaction), modelVersion != step.move.version {
          problems.append("\(name) enters \(step.move.version) with a model at \(modelVersion)")
        }
        version = step.move.version
        modelVersion = version
      case .startLimit(let transaction, _):
        if !evaluated.insert(transaction).inserted {
          problems.append("\(name) has run the transition of \(transaction) twice")
        }
        running.append(transaction)
        limited = transaction
        modelVersion = version + 1
      case .stopLimit: limited = nil
      case .rollBack: modelVersion = version
      case .unfreeze: break
      case .startQueryTimer: queryTimerRuns = true
      case .stopQueryTimer: queryTimerRuns = false
      case .report(let problem): problems.append("\(name): \(problem)")
      }
    }
    return messages
  }

  /// Returns the acknowledgements that have waited for a message, followed by the message.
  private func withHeldAcknowledgements(with message: ParticipantMessage) -> [ParticipantMessage] {
    switch message {
    // Some acknowledgments wait. One that is requested again is sent.
    case .ack(let transaction) where transaction.sequence.isMultiple(of: 3):
      if heldAcknowledgements.insert(transaction).inserted { return [] }
      heldAcknowledgements.remove(transaction)
    case .yes(let transaction, _):
      heldAcknowledgements = heldAcknowledgements.filter { $0 > transaction }
    case .ack, .no, .query, .evaluating, .delivered, .changed, .instanceChanged: break
    }
    defer { heldAcknowledgements = [] }
    return heldAcknowledgements.sorted().map { .ack($0) } + [message]
  }

  /// The synchronized steps of the journal, in order.
  var steps: [PreparedStep] {
    journal.compactMap { if case .record(.step(let step)) = $0 { step } else { nil } }
  }
}
