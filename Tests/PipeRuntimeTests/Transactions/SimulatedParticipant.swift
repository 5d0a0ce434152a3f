import PipeRuntime

/// A node with a machine that takes synchronized events while it is open, and a journal.
struct SimulatedParticipant {
  /// What the journal holds; only that survives a crash.
  enum Entry {
    case record(ParticipantRecord)
    /// A step of its own: it opens or closes.
    case own(isOpen: Bool)
  }

  let name: String
  private(set) var journal: [Entry] = []
  /// Records that are not durable yet, in order.
  private(set) var pending: [ParticipantRecord] = []
  private(set) var machine: ParticipantStateMachine?
  private(set) var version: UInt64 = 0
  private(set) var isOpen = true
  private(set) var queryTimerRuns = false
  private(set) var problems: [String] = []
  /// How many times it came back prepared.
  private(set) var inDoubt = 0
  private(set) var recordCount = 0

  init(name: String) {
    self.name = name
    machine = ParticipantStateMachine()
  }

  /// Loses all but the journal; of what was being written, some may be there.
  mutating func crash(using random: inout some RandomNumberGenerator) {
    let written = pending.prefix(Int.random(in: 0...pending.count, using: &random))
    journal += written.map(Entry.record)
    pending = []
    machine = nil
    queryTimerRuns = false
  }

  /// Comes back as the journal tells.
  mutating func restart() -> [ParticipantMessage] {
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
    if !machine.takesInputs { inDoubt += 1 }
    self.machine = machine
    return perform(machine.start())
  }

  mutating func connected() -> [ParticipantMessage] { perform(machine?.connected() ?? []) }

  mutating func received(_ message: CoordinatorMessage) -> [ParticipantMessage] {
    switch message {
    case .prepare(let transaction, let event, let wantsChange):
      let answers = finishTaking()
      let present = self
      return answers
        + perform(
          machine?.prepare(
            transaction, event: event, wantsChange: wantsChange, evaluate: present.evaluate) ?? [])
    case .commit(let transaction): return perform(machine?.commit(transaction) ?? [])
    case .abort(let transaction): return perform(machine?.abort(transaction) ?? [])
    case .deliver(let transaction, let event):
      let answers = finishTaking()
      let present = self
      return answers
        + perform(machine?.deliver(transaction, event: event, evaluate: present.evaluate) ?? [])
    }
  }

  /// Makes durable what is being taken.
  private mutating func finishTaking() -> [ParticipantMessage] {
    var answers: [ParticipantMessage] = []
    while machine?.isTaking == true, !pending.isEmpty { answers += record() }
    return answers
  }

  mutating func queryTimerFired() -> [ParticipantMessage] {
    queryTimerRuns = false
    return perform(machine?.queryTimerFired() ?? [])
  }

  /// Makes the oldest pending record durable.
  mutating func record() -> [ParticipantMessage] {
    let record = pending.removeFirst()
    journal.append(.record(record))
    return perform(machine?.recorded(record) ?? [])
  }

  /// Takes a step of its own, if it may.
  mutating func step(isOpen: Bool) -> [ParticipantMessage] {
    guard machine?.takesInputs == true else { return [] }
    journal.append(.own(isOpen: isOpen))
    version += 1
    self.isOpen = isOpen
    return perform(machine?.stepped() ?? [])
  }

  private func evaluate(_ event: [UInt8]) throws(ParticipantRefusal) -> ParticipantMove {
    guard isOpen else {
      throw .refused(.noTransition, version: version, state: Array("\"closed\"".utf8))
    }
    return ParticipantMove(version: version + 1, state: Array("\"open\"".utf8))
  }

  private mutating func perform(_ actions: [ParticipantStateMachine.Action]) -> [ParticipantMessage]
  {
    var messages: [ParticipantMessage] = []
    for action in actions {
      switch action {
      case .record(let record):
        pending.append(record)
        recordCount += 1
      case .send(let message): messages.append(message)
      case .enter(let step):
        if step.move.version != version + 1 {
          problems.append("\(name) went from version \(version) to \(step.move.version)")
        }
        version = step.move.version
      case .unfreeze: break
      case .startQueryTimer: queryTimerRuns = true
      case .stopQueryTimer: queryTimerRuns = false
      case .report(let problem): problems.append("\(name): \(problem)")
      }
    }
    return messages
  }

  /// The synchronized steps of the journal, in order.
  var steps: [PreparedStep] {
    journal.compactMap { if case .record(.step(let step)) = $0 { step } else { nil } }
  }
}
